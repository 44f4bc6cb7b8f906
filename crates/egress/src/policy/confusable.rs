//! Names in Unicode that are made to look like others.

/// Cyrillic letters that look like Latin ones.
const LOOKS_LATIN: &str = "асԁеһіјӏорԛѕԝхуъьвмнткг";

/// The first label that mixes Latin letters with Greek, Cyrillic, Armenian or Cherokee ones, or that is
/// made of nothing but Cyrillic letters which look Latin.
pub(super) fn label(name: &str) -> Option<&str> {
    name.split('.').find(|label| {
        let latin = label.chars().any(|char| char.is_ascii_alphabetic());
        let other = label.chars().any(looks_like_other);
        let alike = |char: char| LOOKS_LATIN.contains(char) || char.is_ascii();
        other && (latin || label.to_lowercase().chars().all(alike))
    })
}

const fn looks_like_other(char: char) -> bool {
    matches!(char, '\u{370}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}' | '\u{1d00}'..='\u{1dbf}')
}
