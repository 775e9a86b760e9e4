//! Python that runs once in every session before the agent's code: what `AppWorld` preloads and monty lacks.

/// The blocks of the prelude, fed in order. Part of the world's hash.
///
/// `next` stands in for monty's, which refuses generator expressions; `print` shows containers as JSON.
pub const PRELUDE: [&str; 2] = [
    "\
import collections
import datetime
import functools
import itertools
import json
import math
import re
from collections import Counter, defaultdict
from functools import reduce
_builtin_print = print
",
    "\
def next(iterator, *default):
    for item in iterator:
        return item
    if default:
        return default[0]
    raise StopIteration()

def print(*args, **kwargs):
    if len(args) == 1 and isinstance(args[0], (list, tuple, dict)):
        text = json.dumps(args[0])
        if len(text) >= 100:
            text = json.dumps(args[0], indent=1)
        _builtin_print(text, **kwargs)
    else:
        _builtin_print(*args, **kwargs)

def pprint(value):
    print(value)

def input(*args):
    raise Exception('input(..) is not allowed. All decisions must be made autonomously.')

def deepcopy(value):
    if isinstance(value, dict):
        return {key: deepcopy(value[key]) for key in value}
    if isinstance(value, list):
        return [deepcopy(item) for item in value]
    if isinstance(value, tuple):
        return tuple([deepcopy(item) for item in value])
    if isinstance(value, set):
        return set([deepcopy(item) for item in value])
    return value

class _Copy:
    def deepcopy(self, value):
        return deepcopy(value)
    def copy(self, value):
        if isinstance(value, dict):
            return dict(value)
        if isinstance(value, list):
            return list(value)
        if isinstance(value, set):
            return set(value)
        return value

copy = _Copy()
",
];

/// Modules whose imports the host drops because the prelude serves them, with the names served.
pub(super) const SERVED: [(&str, &[&str]); 2] = [("copy", &["deepcopy"]), ("pprint", &["pprint"])];
