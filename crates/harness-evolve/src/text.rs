//! Cutting and splitting of texts, shared by packets, proposals and checks.

/// Keeps head and tail of a text, `...` between them; the result has at most `max_chars` characters.
///
/// A text that fits comes back as it is. Below 5 characters only the head is kept.
pub(crate) fn cut_middle(text: &str, max_chars: usize) -> String {
    let n_chars = text.chars().count();
    if n_chars <= max_chars {
        return text.to_owned();
    }
    if max_chars < 5 {
        return text.chars().take(max_chars).collect();
    }
    let kept = max_chars - 3;
    let n_tail = kept / 2;
    let head: String = text.chars().take(kept - n_tail).collect();
    let tail: String = text.chars().skip(n_chars - n_tail).collect();
    format!("{head}...{tail}")
}

/// Lower-case words of a text: runs of letters and digits; `snake_case` gives its parts.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(str::to_lowercase)
}

/// Whether `text` contains `needle` with no letter, digit or underscore on either side; both lower-case.
pub(crate) fn contains_whole(text: &str, needle: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    !needle.is_empty()
        && text.match_indices(needle).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn head_and_tail_stay() {
        assert_eq!(cut_middle("abcdefghij", 9), "abc...hij");
        assert_eq!(cut_middle("abc", 9), "abc");
        assert_eq!(cut_middle("abcdef", 2), "ab");
    }

    #[test]
    fn whole_words_only() {
        assert!(contains_whole("see task_7!", "task_7"));
        assert!(!contains_whole("see task_77", "task_7"));
        assert!(!contains_whole("anything", ""));
    }

    #[test]
    fn snake_case_gives_parts() {
        let got: Vec<_> = words("list_cut KeyError").collect();
        assert_eq!(got, ["list", "cut", "keyerror"]);
    }

    proptest! {
        #[test]
        fn never_longer_than_asked(text in ".{0,80}", max in 0_usize..40) {
            prop_assert!(cut_middle(&text, max).chars().count() <= max);
        }
    }
}
