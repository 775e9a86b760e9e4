//! The look at a code block before it runs: refuses what `AppWorld` refuses, refuses what could exhaust
//! memory (monty does not bound it), and drops imports of names that the prelude serves.
//!
//! It is a first line only: the interpreter itself can reach nothing but the host.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Alias, Expr, ExprBinOp, ExprCall, Keyword, Mod, Number, Operator, Stmt};
use ruff_python_parser::{Mode, ParseError, ParseOptions, parse};
use ruff_text_size::{Ranged, TextRange};

use super::prelude::SERVED;
use super::{BlockError, ErrorKind};

/// Modules that agents may import; all others are refused.
const MODULES: [&str; 34] = [
    "array",
    "bisect",
    "builtins",
    "calendar",
    "collections",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "os",
    "pathlib",
    "pendulum",
    "pprint",
    "random",
    "re",
    "string",
    "textwrap",
    "time",
    "typing",
    "unittest",
    "uuid",
    "yaml",
    "appworld",
];

/// Functions that agents may not call, by their full name; names without a module are builtins.
const FUNCTIONS: [&str; 31] = [
    "builtins.open",
    "builtins.exit",
    "builtins.quit",
    "builtins.breakpoint",
    "builtins.eval",
    "builtins.exec",
    "builtins.compile",
    "builtins.globals",
    "builtins.locals",
    "builtins.vars",
    "builtins.__import__",
    "time.sleep",
    "os.system",
    "os.popen",
    "os.remove",
    "os.unlink",
    "os.rename",
    "os.mkdir",
    "os.makedirs",
    "os.rmdir",
    "os.removedirs",
    "os.listdir",
    "os.walk",
    "os.kill",
    "os._exit",
    "os.chdir",
    "os.chmod",
    "json.dump",
    "json.load",
    "csv.reader",
    "csv.writer",
];

/// Longest constant repeat, range or exponent that a block may name.
const MAX_REPEAT: i64 = 100_000;
const MAX_RANGE: i64 = 5_000_000;
const MAX_EXPONENT: i64 = 5_000;
/// Widest indent of printed JSON.
const MAX_INDENT: i64 = 100;
/// Deepest nesting of brackets and statements, and most operators in a block: bounds of the parser's stack.
const MAX_NESTING: u16 = 60;
const MAX_OPERATORS: usize = 2_000;
const MAX_INT_DIGITS: usize = 300;

/// Why a block may not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Modules that agents may not import.
    #[error("{}", listed("module", .0))]
    Modules(Vec<String>),
    /// Functions that agents may not call.
    #[error("{}", listed("function", .0))]
    Functions(Vec<String>),
    /// The code is too long or too complex.
    #[error("The code is too {0}.")]
    TooMuch(&'static str),
    /// The code would make a very large value.
    #[error("The code would make a too large {0}.")]
    TooLarge(&'static str),
}

fn listed(kind: &str, names: &[String]) -> String {
    match names {
        [name] => format!("Usage of the following {kind} is not allowed: {name}."),
        [init @ .., last] => format!(
            "Usage of the following {kind}s are not allowed: {} and {last}.",
            init.join(", ")
        ),
        [] => String::new(),
    }
}

/// Checks a block and returns it without the imports that the prelude serves.
///
/// # Errors
/// [`BlockError`] of kind `guard` if it is refused, of kind `syntax` if it does not parse.
pub fn check(code: &str, max_code: usize) -> Result<String, BlockError> {
    if code.len() > max_code {
        return Err(refused(&Refusal::TooMuch("long")));
    }
    if operators(code) > MAX_OPERATORS {
        return Err(refused(&Refusal::TooMuch("complex")));
    }
    let options = ParseOptions::from(Mode::Module).with_max_recursion_depth(MAX_NESTING);
    let parsed = parse(code, options).map_err(|error| syntax_error(code, &error))?;
    let Mod::Module(module) = parsed.syntax() else {
        return Ok(code.to_owned());
    };
    let mut look = Look::default();
    look.visit_body(&module.body);
    if !look.modules.is_empty() {
        return Err(refused(&Refusal::Modules(look.modules)));
    }
    if !look.functions.is_empty() {
        return Err(refused(&Refusal::Functions(look.functions)));
    }
    if let Some(what) = look.too_large {
        return Err(refused(&Refusal::TooLarge(what)));
    }
    Ok(apply(code, &look.edits))
}

fn refused(refusal: &Refusal) -> BlockError {
    BlockError {
        kind: ErrorKind::Guard,
        text: refusal.to_string(),
    }
}

/// An upper bound of how deep the syntax tree of flat code can get: `1+1+1`, `a.b.c`, `not not x`.
fn operators(code: &str) -> usize {
    let marks = code
        .bytes()
        .filter(|b| b".+-*/%&|^~@<>=!([{".contains(b))
        .count();
    let words = code
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| {
            [
                "not", "and", "or", "if", "elif", "else", "lambda", "await", "for", "in", "is",
            ]
            .contains(w)
        })
        .count();
    marks + words
}

fn syntax_error(code: &str, error: &ParseError) -> BlockError {
    let at = error.location.start().to_usize().min(code.len());
    let start = code[..at].rfind('\n').map_or(0, |i| i + 1);
    let line = code[start..].lines().next().unwrap_or_default();
    let line = if line.trim().is_empty() {
        let before = code[..start].lines().rfind(|l| !l.trim().is_empty());
        before.unwrap_or_default()
    } else {
        line
    };
    BlockError {
        kind: ErrorKind::Syntax,
        text: format!("Syntax error in line:\n{line}\nMessage: {}", error.error),
    }
}

/// Replaces each range by a text of the same length.
fn apply(code: &str, edits: &[(TextRange, String)]) -> String {
    let mut code = code.to_owned();
    for (range, text) in edits.iter().rev() {
        let (start, end) = (range.start().to_usize(), range.end().to_usize());
        let padded = format!("{text:<width$}", width = end - start);
        code.replace_range(start..end, &padded);
    }
    code
}

/// What one walk over the syntax tree finds.
#[derive(Default)]
struct Look {
    modules: Vec<String>,
    functions: Vec<String>,
    too_large: Option<&'static str>,
    edits: Vec<(TextRange, String)>,
}

impl Look {
    fn import(&mut self, module: &str) {
        let root = module.split('.').next().unwrap_or_default();
        if !MODULES.contains(&root) {
            note(&mut self.modules, module);
        }
    }

    fn imports(&mut self, range: TextRange, names: &[Alias]) {
        for alias in names {
            self.import(alias.name.as_str());
        }
        let kept: Vec<&str> = names
            .iter()
            .filter(|a| a.asname.is_some() || served(a.name.as_str()).is_none())
            .map(|a| a.name.as_str())
            .collect();
        let plain = names.iter().all(|a| a.asname.is_none());
        if kept.is_empty() {
            self.edits.push((range, "pass".into()));
        } else if plain && kept.len() < names.len() {
            self.edits
                .push((range, format!("import {}", kept.join(", "))));
        }
    }

    fn imports_from(&mut self, range: TextRange, module: &str, names: &[Alias]) {
        self.import(module);
        for alias in names {
            self.function(&format!("{module}.{}", alias.name.as_str()));
        }
        let serves = served(module).unwrap_or_default();
        let all = names
            .iter()
            .all(|a| a.asname.is_none() && serves.contains(&a.name.as_str()));
        if all {
            self.edits.push((range, "pass".into()));
        }
    }

    fn function(&mut self, name: &str) {
        if FUNCTIONS.contains(&name) {
            note(&mut self.functions, name);
        }
    }

    fn call(&mut self, call: &ExprCall) {
        match call.func.as_ref() {
            Expr::Name(name) => {
                self.function(&format!("builtins.{}", name.id));
                let bombs =
                    name.id == "range" && call.arguments.args.iter().any(|a| beyond(a, MAX_RANGE));
                if bombs {
                    self.too_large = Some("range");
                }
                // Neither the clock nor a size stops monty in a power with a modulus.
                if name.id == "pow" && call.arguments.args.len() > 2 {
                    self.too_large = Some("value");
                }
            }
            Expr::Attribute(attribute) => {
                if let Expr::Name(owner) = attribute.value.as_ref() {
                    self.function(&format!("{}.{}", owner.id, attribute.attr));
                }
            }
            _ => {}
        }
        // monty makes the indent of `json.dumps` before it looks at any limit.
        let is_wide =
            |k: &Keyword| k.arg.as_ref().is_some_and(|arg| arg == "indent") && !is_small(&k.value);
        if call.arguments.keywords.iter().any(is_wide) {
            self.too_large = Some("indent");
        }
    }

    fn operation(&mut self, op: &ExprBinOp) {
        let bombs = match op.op {
            Operator::Mult => {
                (is_sequence(&op.left) && beyond(&op.right, MAX_REPEAT))
                    || (is_sequence(&op.right) && beyond(&op.left, MAX_REPEAT))
            }
            Operator::Pow => {
                constant(&op.right).is_none_or(|e| e > MAX_EXPONENT) && is_constant(op)
            }
            Operator::LShift => beyond(&op.right, MAX_EXPONENT),
            _ => false,
        };
        if bombs {
            self.too_large = Some("value");
        }
    }
}

impl<'a> Visitor<'a> for Look {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => self.imports(import.range(), &import.names),
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or(".", |m| m.as_str());
                self.imports_from(import.range(), module, &import.names);
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => self.call(call),
            Expr::BinOp(op) => self.operation(op),
            Expr::NumberLiteral(number) => {
                if let Number::Int(int) = &number.value
                    && int.as_i64().is_none()
                    && int.to_string().len() > MAX_INT_DIGITS
                {
                    self.too_large = Some("number");
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}

fn note(list: &mut Vec<String>, name: &str) {
    if !list.iter().any(|n| n == name) {
        list.push(name.to_owned());
    }
}

fn served(module: &str) -> Option<&'static [&'static str]> {
    SERVED
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, names)| *names)
}

fn is_sequence(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::StringLiteral(_)
            | Expr::BytesLiteral(_)
            | Expr::FString(_)
            | Expr::List(_)
            | Expr::Tuple(_)
            | Expr::ListComp(_)
    )
}

fn is_constant(op: &ExprBinOp) -> bool {
    fn number(expr: &Expr) -> bool {
        match expr {
            Expr::NumberLiteral(_) => true,
            Expr::BinOp(op) => number(&op.left) && number(&op.right),
            Expr::UnaryOp(op) => number(&op.operand),
            _ => false,
        }
    }
    number(&op.right)
}

fn beyond(expr: &Expr, limit: i64) -> bool {
    constant(expr).is_some_and(|v| v > limit) || is_big(expr)
}

/// Whether an indent is a constant of at most [`MAX_INDENT`]; `None`, a text and a truth value are none of a
/// number's size.
fn is_small(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::NoneLiteral(_) | Expr::StringLiteral(_) | Expr::BooleanLiteral(_)
    ) || constant(expr).is_some_and(|n| n <= MAX_INDENT)
}

fn is_big(expr: &Expr) -> bool {
    matches!(expr, Expr::NumberLiteral(n)
        if matches!(&n.value, Number::Int(int) if int.as_i64().is_none()))
}

/// The value of constant integer arithmetic, saturating; `None` if the expression is anything else.
fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(int) => int.as_i64(),
            _ => None,
        },
        Expr::BinOp(op) => {
            let (left, right) = (constant(&op.left)?, constant(&op.right)?);
            Some(match op.op {
                Operator::Add => left.saturating_add(right),
                Operator::Sub => left.saturating_sub(right),
                Operator::Mult => left.saturating_mul(right),
                Operator::Pow => left.saturating_pow(u32::try_from(right).ok()?),
                Operator::LShift => {
                    left.saturating_mul(2_i64.saturating_pow(right.try_into().ok()?))
                }
                _ => return None,
            })
        }
        _ => None,
    }
}
