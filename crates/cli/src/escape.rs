//! Makes text from a sandbox harmless on a terminal.

use std::fmt;

/// Displays text with everything that a terminal would act on written as an escape.
///
/// Control characters (escape sequences, carriage returns, bells, C1), the characters that
/// reorder text, and line separators: a hostile name can neither move the cursor nor look like
/// another line or another name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if is_active(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                fmt::Write::write_char(f, c)?;
            }
        }
        Ok(())
    }
}

/// Whether a terminal does something other than drawing `c` in its place.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_cannot_drive_the_terminal() {
        for (name, shown) in [
            ("a\x1b]0;owned\x07", "a\\u{1b}]0;owned\\u{7}"),
            ("a\rb", "a\\rb"),
            ("a\nerror: b", "a\\nerror: b"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("txt\u{202e}exe", "txt\\u{202e}exe"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("a\u{2028}b", "a\\u{2028}b"),
        ] {
            assert_eq!(Escaped(name).to_string(), shown);
        }
    }

    #[test]
    fn an_honest_name_is_left_alone() {
        for name in ["a b", "naïve", "日本語", "emoji 🦀", "back\\slash"] {
            assert_eq!(Escaped(name).to_string(), name);
        }
    }
}
