//! Queries whose values are bytes: a path need not be UTF-8.

use super::fail::{Fail, Outcome};

/// The one value of `name`.
///
/// # Errors
/// A broken escape, or a name given twice, over which two readers could differ.
pub(crate) fn value(query: &str, name: &str) -> Outcome<Option<Vec<u8>>> {
    let mut found = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decode(key.as_bytes())? == name.as_bytes()
            && found.replace(decode(value.as_bytes())?).is_some()
        {
            return Err(Fail::invalid(format!(
                "the query gives '{name}' more than once"
            )));
        }
    }
    Ok(found)
}

/// As [`value`], and UTF-8.
pub(crate) fn text(query: &str, name: &str) -> Outcome<Option<String>> {
    let value = value(query, name)?;
    value
        .map(|value| {
            String::from_utf8(value).map_err(|_| Fail::invalid(format!("'{name}' is not UTF-8")))
        })
        .transpose()
}

fn decode(text: &[u8]) -> Outcome<Vec<u8>> {
    let spaced: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    let broken = || Fail::invalid("the query has a % without two hexadecimal digits");
    for (at, _) in spaced.iter().enumerate().filter(|(_, byte)| **byte == b'%') {
        if hex(&spaced, at).is_none() {
            return Err(broken());
        }
    }
    Ok(percent_decode(&spaced))
}

/// Decodes `%XX`; what is no escape stays.
pub(crate) fn percent_decode(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at).copied() {
        match hex(text, at).filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                at += 3;
            }
            None => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}

fn hex(text: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(at + 1)? << 4 | digit(at + 2)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_byte_can_be_in_a_path() {
        let query = "a=1&path=%2Fa%20b+c%ff%0A%09%25&x";
        assert_eq!(value(query, "path").unwrap().unwrap(), b"/a b c\xff\n\t%");
        assert_eq!(value(query, "x").unwrap().unwrap(), b"");
        assert_eq!(value(query, "y").unwrap(), None);
        assert!(text(query, "path").is_err());
    }

    #[test]
    fn ambiguous_queries_are_refused() {
        for query in [
            "path=a&path=b",
            "path=a&%70ath=b",
            "path=%",
            "path=%f",
            "path=%zz",
        ] {
            assert!(value(query, "path").is_err(), "{query}");
        }
    }
}
