//! Query strings: `application/x-www-form-urlencoded`, strictly UTF-8.

use std::fmt::Write as _;

/// Why text is no query string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// A `%` is not followed by two hexadecimal digits.
    #[error("the query has a % without two hexadecimal digits")]
    InvalidEscape,
    /// The escapes are no UTF-8.
    #[error("the query is not UTF-8")]
    NotUtf8,
    /// A name that may be given once is given twice, so two readers could differ over it.
    #[error("the query gives `{0}` more than once")]
    Repeated(&'static str),
    /// A value that must be a number is none.
    #[error("`{0}` in the query is not a number")]
    NotANumber(&'static str),
}

/// Decodes `%XX` and `+`.
///
/// # Errors
///
/// [`QueryError`] for a broken escape or what is no UTF-8.
pub fn decode(text: &str) -> Result<String, QueryError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (hex(rest.next())?, hex(rest.next())?);
                high << 4 | low
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| QueryError::NotUtf8)
}

fn hex(byte: Option<u8>) -> Result<u8, QueryError> {
    match byte {
        Some(b @ b'0'..=b'9') => Ok(b - b'0'),
        Some(b @ b'a'..=b'f') => Ok(b - b'a' + 10),
        Some(b @ b'A'..=b'F') => Ok(b - b'A' + 10),
        _ => Err(QueryError::InvalidEscape),
    }
}

/// Encodes everything but unreserved characters as `%XX`.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => write!(encoded, "%{byte:02X}").expect("writing to a string never fails"),
        }
    }
    encoded
}

/// Writes pairs as a query, without a leading `?`.
#[must_use]
pub fn build(pairs: &[(&str, &str)]) -> String {
    let encoded: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    encoded.join("&")
}

/// Reads the pairs of a query; a name without `=` has the empty value.
///
/// # Errors
///
/// [`QueryError`] for a broken escape or what is no UTF-8, at the pair that has it.
pub fn pairs(query: &str) -> impl Iterator<Item = Result<(String, String), QueryError>> + '_ {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        })
}

/// The one value of `name`, if it is given.
///
/// # Errors
///
/// [`QueryError`] for a malformed query or a repeated `name`.
pub fn get(query: &str, name: &'static str) -> Result<Option<String>, QueryError> {
    let mut found = None;
    for pair in pairs(query) {
        let (key, value) = pair?;
        if key == name && found.replace(value).is_some() {
            return Err(QueryError::Repeated(name));
        }
    }
    Ok(found)
}

/// The query of `/files`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesQuery {
    /// Which file.
    pub path: Option<String>,
    /// As whom.
    pub username: Option<String>,
    /// Proof of a signed URL.
    pub signature: Option<String>,
    /// Until when the proof holds, in seconds since 1970. Zero is a value like any other.
    pub signature_expiration: Option<u64>,
}

impl FilesQuery {
    /// Reads the query, without its `?`. Other names are ignored.
    ///
    /// # Errors
    ///
    /// [`QueryError`] for a malformed query, a repeated name, or an expiration that is no number.
    pub fn parse(query: &str) -> Result<Self, QueryError> {
        let number = |text: String| {
            text.parse()
                .map_err(|_| QueryError::NotANumber("signature_expiration"))
        };
        Ok(Self {
            path: get(query, "path")?,
            username: get(query, "username")?,
            signature: get(query, "signature")?,
            signature_expiration: get(query, "signature_expiration")?
                .map(number)
                .transpose()?,
        })
    }

    /// Writes the query, without a `?`.
    #[must_use]
    pub fn build(&self) -> String {
        let expiration = self.signature_expiration.map(|at| at.to_string());
        let given: Vec<_> = [
            ("path", self.path.as_deref()),
            ("username", self.username.as_deref()),
            ("signature", self.signature.as_deref()),
            ("signature_expiration", expiration.as_deref()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        build(&given)
    }
}
