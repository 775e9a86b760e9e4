//! [`Codec`] of the nano track: byte-pair encoding over ASCII, learnt from the world's own messages.
//!
//! Text is first cut into [`pieces`], which no token crosses: digits and capitals stand alone, so that a
//! random value is copied character by character; *atoms* (entity names, random API words) stand alone, so
//! that they have the same ids wherever they occur; prose is cut at blanks, so that a rule keeps its words;
//! code is not, so that a whole call may become one token.
//!
//! Ids: `0..8` are controls and the replacement for characters outside printable ASCII and newline (shown
//! as U+FFFD), then come the 96 characters, then merges. Text is never looked up among the controls, so
//! `<|end|>` in a message is seven characters of text (bug report T5).

mod pieces;
mod training;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use harness_core::{Codec, Message, Role};
use serde::{Deserialize, Serialize};
use tokenizers::Model;
use tokenizers::models::bpe::{BPE, Vocab};

pub use pieces::{Atoms, Style, pieces};
use training::learn_merges;

/// The version of the file that this code writes.
const FORMAT_VERSION: u32 = 1;
/// Names of the control ids, in order of id; the last is the replacement.
const CONTROLS: [&str; 8] = [
    "<|pad|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
    "<|hint|>",
    "\u{fffd}",
];
const END: u32 = 1;
const ASSISTANT: u32 = 4;
const REPLACEMENT: u32 = 7;
/// The largest file that is read.
const MAX_BYTES: u64 = 16 << 20;
/// Pieces kept in the cache; then it grows no more.
const CACHE_PIECES: usize = 1 << 16;

/// Id that fills rows up; no text and no policy needs it.
pub const PAD: u32 = 0;

/// Why a codec could not be made, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// Fewer ids were asked for than the controls and characters need.
    #[error("a vocabulary of {got} is too small: at least {least}")]
    VocabTooSmall {
        /// Asked for.
        got: usize,
        /// Needed.
        least: usize,
    },
    /// An atom is not one or more of `a-z` and `_`.
    #[error("an atom may hold only a-z and _, got: {0:?}")]
    BadAtom(String),
    /// The file could not be read or written.
    #[error("tokenizer file {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what was written.
    #[error("tokenizer file {path} is corrupt, rebuild it with `cargo xtask warm-start appworld`: {reason}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file comes from a newer program.
    #[error("tokenizer file {path} has format {found}, this program reads up to {supported}: update the program or rebuild it with `cargo xtask warm-start appworld`", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The highest known one.
        supported: u32,
    },
}

/// What defines a codec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    atoms: Vec<String>,
    merges: Vec<(String, String)>,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    format_version: u32,
    hash: String,
    content: Content,
}

/// The file's head, read before the rest is trusted.
#[derive(Debug, Deserialize)]
struct Head {
    format_version: u32,
}

/// Byte-pair encoding with control ids; see the module.
///
/// # Example
/// ```
/// use harness_core::{Codec, Message, Role};
/// use rescue_grpo::codec::BpeCodec;
/// let demo = vec![Message::new(Role::Assistant, "print(apis.lamp.on())"); 4];
/// let codec = BpeCodec::train(&demo, &["lamp"], 200)?;
/// let ids = codec.encode_reply("print(apis.lamp.on())");
/// assert_eq!(codec.decode(&ids), "print(apis.lamp.on())");
/// # Ok::<(), rescue_grpo::codec::CodecError>(())
/// ```
#[derive(Debug)]
pub struct BpeCodec {
    content: Content,
    atoms: Atoms,
    bpe: BPE,
    /// Text of every id; empty for controls.
    texts: Vec<String>,
    cache: RwLock<HashMap<String, Arc<[u32]>>>,
    hash: String,
}

/// The 96 characters that have ids of their own, in order of id.
fn alphabet() -> impl Iterator<Item = char> {
    std::iter::once('\n').chain(' '..='~')
}

impl BpeCodec {
    /// Learns merges from messages until there are `vocab_size` ids, or no pair occurs twice. `atoms` are
    /// lower-case words that always stand alone.
    ///
    /// # Errors
    /// [`CodecError::VocabTooSmall`] and [`CodecError::BadAtom`].
    ///
    /// # Determinism
    /// A pure function of its arguments: the most frequent pair is merged first, the pair of lowest ids
    /// wins a tie. (The trainer of the `tokenizers` crate depends on hash order when a token arises from
    /// two different pairs, so only its encoder is used.)
    ///
    /// # Panics
    /// Never: learnt merges only join known tokens.
    pub fn train<'a, A: AsRef<str>>(
        messages: impl IntoIterator<Item = &'a Message>,
        atoms: &[A],
        vocab_size: usize,
    ) -> Result<Self, CodecError> {
        let least = CONTROLS.len() + alphabet().count();
        if vocab_size < least {
            let got = vocab_size;
            return Err(CodecError::VocabTooSmall { got, least });
        }
        let atoms: Vec<String> = atoms.iter().map(|a| a.as_ref().to_owned()).collect();
        if let Some(bad) = atoms.iter().find(|a| !pieces::is_atom(a)) {
            return Err(CodecError::BadAtom(bad.clone()));
        }
        let set = Atoms::new(&atoms);
        let cut = messages.into_iter().flat_map(|message| {
            pieces(&message.text, Style::of(message.role), &set)
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        let merges = learn_merges(cut, &alphabet().collect::<Vec<_>>(), vocab_size - least);
        let mut atoms: Vec<String> = set.iter().map(str::to_owned).collect();
        atoms.sort();
        let content = Content { atoms, merges };
        Ok(Self::build(content).expect("learnt merges only join known tokens"))
    }

    fn build(content: Content) -> Result<Self, String> {
        if let Some(bad) = content.atoms.iter().find(|a| !pieces::is_atom(a)) {
            return Err(format!("{bad:?} is no atom"));
        }
        let mut texts = vec![String::new(); CONTROLS.len()];
        texts[REPLACEMENT as usize] = CONTROLS[REPLACEMENT as usize].into();
        let mut vocab = Vocab::default();
        let merged = content.merges.iter().map(|(a, b)| format!("{a}{b}"));
        for text in alphabet().map(String::from).chain(merged) {
            if !vocab.contains_key(&text) {
                vocab.insert(text.clone(), texts.len() as u32);
                texts.push(text);
            }
        }
        let bpe = BPE::builder()
            .vocab_and_merges(vocab, content.merges.clone())
            .cache_capacity(0)
            .build()
            .map_err(|error| error.to_string())?;
        let hash = content_hash(&content);
        Ok(Self {
            atoms: Atoms::new(&content.atoms),
            content,
            bpe,
            texts,
            cache: RwLock::default(),
            hash,
        })
    }

    /// Reads a file that [`BpeCodec::save`] wrote.
    ///
    /// # Errors
    /// [`CodecError::Io`], [`CodecError::Corrupt`] and [`CodecError::Newer`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CodecError> {
        let path = path.as_ref().to_owned();
        let text = crate::checkpoint::read_bounded(&path, MAX_BYTES);
        let text = text.map_err(|source| CodecError::Io {
            path: path.clone(),
            source,
        })?;
        let corrupt = |reason: String| CodecError::Corrupt {
            path: path.clone(),
            reason,
        };
        let head: Head = serde_json::from_slice(&text).map_err(|e| corrupt(e.to_string()))?;
        if head.format_version > FORMAT_VERSION {
            return Err(CodecError::Newer {
                found: head.format_version,
                supported: FORMAT_VERSION,
                path,
            });
        }
        let file: File = serde_json::from_slice(&text).map_err(|e| corrupt(e.to_string()))?;
        let codec = Self::build(file.content).map_err(&corrupt)?;
        if codec.hash != file.hash {
            return Err(corrupt(format!("its content hashes to {}", codec.hash)));
        }
        Ok(codec)
    }

    /// Writes the codec as JSON, aside and then renamed.
    ///
    /// # Errors
    /// [`CodecError::Io`].
    ///
    /// # Panics
    /// Never: strings always serialise.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), CodecError> {
        let path = path.as_ref();
        let file = File {
            format_version: FORMAT_VERSION,
            hash: self.hash.clone(),
            content: self.content.clone(),
        };
        let mut text = serde_json::to_vec_pretty(&file).expect("strings always serialise");
        text.push(b'\n');
        crate::checkpoint::write_aside(path, &text).map_err(|source| CodecError::Io {
            path: path.to_owned(),
            source,
        })
    }

    /// BLAKE3 of atoms and merges, 64 hexadecimal digits: equal exactly if all texts have equal ids.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The text of every id, for display; empty for controls.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Ids of a text in the given style, without controls.
    pub fn encode_text(&self, text: &str, style: Style) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        self.append(text, style, &mut ids);
        ids
    }

    fn append(&self, text: &str, style: Style, ids: &mut Vec<u32>) {
        for piece in pieces(text, style, &self.atoms) {
            let known = self.cache.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(piece) {
                ids.extend_from_slice(found);
                continue;
            }
            drop(known);
            let fresh: Arc<[u32]> = self.encode_piece(piece).into();
            ids.extend_from_slice(&fresh);
            let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
            if cache.len() < CACHE_PIECES {
                cache.insert(piece.to_owned(), fresh);
            }
        }
    }

    fn encode_piece(&self, piece: &str) -> Vec<u32> {
        if piece.chars().any(|c| !pieces::has_id(c)) {
            return piece.chars().map(|_| REPLACEMENT).collect();
        }
        let tokens = self.bpe.tokenize(piece);
        let tokens = tokens.expect("every character of the piece has an id");
        tokens.into_iter().map(|token| token.id).collect()
    }
}

fn content_hash(content: &Content) -> String {
    let text = serde_json::to_vec(content).expect("strings always serialise");
    blake3::hash(&text).to_hex().to_string()
}

fn role_id(role: Role) -> u32 {
    match role {
        Role::System => 2,
        Role::User => 3,
        Role::Assistant => ASSISTANT,
        Role::Observation => 5,
        // `Role` may grow; a voice this code does not know speaks like a rule.
        _ => 6,
    }
}

impl Codec for BpeCodec {
    fn encode_message(&self, message: &Message) -> Vec<u32> {
        let mut ids = vec![role_id(message.role)];
        self.append(&message.text, Style::of(message.role), &mut ids);
        if message.role == Role::Assistant {
            ids.push(END);
        }
        ids
    }

    fn open_assistant(&self) -> Vec<u32> {
        vec![ASSISTANT]
    }

    fn decode(&self, ids: &[u32]) -> String {
        let texts = ids.iter().filter_map(|&id| self.texts.get(id as usize));
        texts.map(String::as_str).collect()
    }

    fn stop_ids(&self) -> &[u32] {
        &[END]
    }

    fn vocab_size(&self) -> usize {
        self.texts.len()
    }
}

#[cfg(test)]
mod tests;
