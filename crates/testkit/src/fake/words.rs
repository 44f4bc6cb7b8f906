//! A shell's words and redirections, as far as they need no kernel.

/// One command of a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) argv: Vec<Vec<u8>>,
    /// Where standard output goes.
    pub(crate) output: Target,
    /// Runs only if the one before succeeded.
    pub(crate) after_success: bool,
}

/// Where the output of a statement goes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Target {
    #[default]
    Stdout,
    Stderr,
    File {
        path: String,
        append: bool,
    },
}

/// Splits a script; `None` for anything a real shell would be needed for.
pub(crate) fn parse(script: &str, variable: impl Fn(&str) -> String) -> Option<Vec<Statement>> {
    let mut statements = Vec::new();
    let mut current = Statement::default();
    let mut chars = script.chars().peekable();
    let mut word: Option<Vec<u8>> = None;
    let mut redirect: Option<bool> = None;
    macro_rules! end_word {
        () => {
            if let Some(word) = word.take() {
                match redirect.take() {
                    Some(append) => {
                        current.output = Target::File {
                            path: String::from_utf8_lossy(&word).into_owned(),
                            append,
                        };
                    }
                    None => current.argv.push(word),
                }
            }
        };
    }
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => end_word!(),
            ';' | '\n' | '&' => {
                end_word!();
                let both = c == '&' && chars.next_if_eq(&'&').is_some();
                if c == '&' && !both {
                    return None;
                }
                if !current.argv.is_empty() {
                    statements.push(std::mem::take(&mut current));
                }
                current.after_success = both;
            }
            '>' => {
                end_word!();
                if chars.next_if_eq(&'&').is_some() {
                    chars.next_if_eq(&'2')?;
                    current.output = Target::Stderr;
                } else {
                    redirect = Some(chars.next_if_eq(&'>').is_some());
                }
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                    }
                }
            }
            '$' => {
                let mut name = String::new();
                if chars.next_if_eq(&'$').is_some() {
                    name.push('$');
                }
                while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                if name.is_empty() {
                    return None;
                }
                word.get_or_insert_default()
                    .extend(variable(&name).into_bytes());
            }
            '|' | '<' | '(' | ')' | '`' | '"' | '\\' | '{' | '}' => return None,
            c => word
                .get_or_insert_default()
                .extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    end_word!();
    if !current.argv.is_empty() {
        statements.push(current);
    }
    let needs_a_shell = ["for", "while", "until", "if", "case", "trap", "do", "done"];
    let simple = statements.iter().all(|statement| {
        let word = statement
            .argv
            .first()
            .map(Vec::as_slice)
            .unwrap_or_default();
        !needs_a_shell
            .iter()
            .any(|keyword| keyword.as_bytes() == word)
    });
    simple.then_some(statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Option<Vec<Vec<Vec<u8>>>> {
        let parsed = parse(script, |name| format!("<{name}>"))?;
        Some(parsed.into_iter().map(|s| s.argv).collect())
    }

    #[test]
    fn statements_words_and_quotes_are_split() {
        let parsed = words("echo a 'b c'; exit $$\ntrue").unwrap();
        assert_eq!(
            parsed,
            [
                vec![b"echo".to_vec(), b"a".to_vec(), b"b c".to_vec()],
                vec![b"exit".to_vec(), b"<$>".to_vec()],
                vec![b"true".to_vec()],
            ]
        );
    }

    #[test]
    fn what_needs_a_shell_is_refused() {
        for script in [
            "a | b",
            "a &",
            "for x in y; do z; done",
            "$(a)",
            "`a`",
            "a < b",
            "'a",
        ] {
            assert_eq!(words(script), None, "{script}");
        }
    }
}
