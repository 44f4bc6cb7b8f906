//! The first message of a TLS client, read without taking part: which server it means. No I/O.
//!
//! Strict: a hello whose lengths do not add up, or that says something twice, is read differently by
//! different servers, so it is not read at all.

use crate::Name;
use crate::reader::Reader;

/// The longest hello, in bytes of its message. With post-quantum key shares they have some 2 KiB.
const LONGEST: usize = 16 * 1024;
/// The longest content of a record.
const LONGEST_RECORD: usize = 16 * 1024;
/// What records may come to, with the heads of each.
pub(crate) const LONGEST_RECORDS: usize = LONGEST + 4 * 1024;

const RECORD_HEAD: usize = 5;
const HANDSHAKE: u8 = 22;
const MAJOR: u8 = 3;
const CLIENT_HELLO: u8 = 1;
const MESSAGE_HEAD: usize = 4;

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// What a client says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The server it means. Where there is an encrypted hello inside, which only the server can tell from
    /// random bytes, the one that is named outside is the one that is reached.
    pub(crate) server_name: Option<Name>,
}

/// Why bytes are no hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelloError {
    /// They are something else.
    NotTls,
    /// There is more to come: that many bytes at least, in all.
    Incomplete(usize),
    /// Its lengths do not add up, it repeats itself, or its server name is none.
    Malformed,
    /// Longer than any honest one.
    TooLarge,
}

/// Reads a hello off the front of what a client sent; whatever follows its last record is not looked at.
///
/// # Errors
///
/// [`HelloError`].
pub(crate) fn read(sent: &[u8]) -> Result<Hello, HelloError> {
    let message = assemble(sent)?;
    parse(&message).ok_or(HelloError::Malformed)
}

/// The message, head and all, out of as many records as it was cut into.
fn assemble(sent: &[u8]) -> Result<Vec<u8>, HelloError> {
    let mut message = Vec::new();
    let mut at = 0;
    loop {
        let (content, next) = record(sent, at)?;
        message.extend_from_slice(content);
        at = next;
        let Some(length) = length_of(&message)? else {
            continue;
        };
        if message.len() == length {
            return Ok(message);
        }
        // A hello is the last thing in its record: the client waits for an answer.
        if message.len() > length {
            return Err(HelloError::Malformed);
        }
    }
}

/// The content of the record at `at`, and where the next one starts.
fn record(sent: &[u8], at: usize) -> Result<(&[u8], usize), HelloError> {
    let rest = sent.get(at..).unwrap_or_default();
    let wrong = if at == 0 {
        HelloError::NotTls
    } else {
        HelloError::Malformed
    };
    for (byte, expected) in rest.iter().zip([HANDSHAKE, MAJOR]) {
        if *byte != expected {
            return Err(wrong);
        }
    }
    let incomplete = |length: usize| match at + length {
        all if all > LONGEST_RECORDS => HelloError::TooLarge,
        all => HelloError::Incomplete(all),
    };
    let Some((&[_, _, minor, high, low], rest)) = rest.split_first_chunk::<RECORD_HEAD>() else {
        return Err(incomplete(RECORD_HEAD));
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if minor > 4 || length == 0 || length > LONGEST_RECORD {
        return Err(wrong);
    }
    match rest.get(..length) {
        Some(content) if at + RECORD_HEAD + length <= LONGEST_RECORDS => {
            Ok((content, at + RECORD_HEAD + length))
        }
        _ => {
            // What it begins with tells already whether waiting is worth it.
            if at == 0 && rest.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
                return Err(HelloError::Malformed);
            }
            Err(incomplete(RECORD_HEAD + length))
        }
    }
}

/// The length of the message, head and all, once its head is there.
fn length_of(message: &[u8]) -> Result<Option<usize>, HelloError> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(HelloError::Malformed);
    }
    let Some(&[_, a, b, c]) = message.first_chunk::<MESSAGE_HEAD>() else {
        return Ok(None);
    };
    let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    if length > LONGEST {
        return Err(HelloError::TooLarge);
    }
    Ok(Some(MESSAGE_HEAD + length))
}

/// Reads a whole message; `None` if it is malformed.
fn parse(message: &[u8]) -> Option<Hello> {
    let mut rest = Reader(message.get(MESSAGE_HEAD..)?);
    let _version = rest.u16()?;
    let _random = rest.take(32)?;
    if rest.vector8()?.len() > 32 {
        return None;
    }
    let suites = rest.vector16()?;
    if suites.is_empty() || !suites.len().is_multiple_of(2) || rest.vector8()?.is_empty() {
        return None;
    }
    let mut hello = Hello { server_name: None };
    if rest.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = Reader(rest.vector16()?);
    if !rest.0.is_empty() {
        return None;
    }
    let (mut alpn, mut encrypted) = (false, false);
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.vector16()?;
        match kind {
            SERVER_NAME if hello.server_name.is_none() => {
                hello.server_name = Some(server_name(content)?);
            }
            ALPN if !alpn => {
                protocols(content)?;
                alpn = true;
            }
            ENCRYPTED_CLIENT_HELLO if !encrypted => encrypted = true,
            SERVER_NAME | ALPN | ENCRYPTED_CLIENT_HELLO => return None,
            _ => {}
        }
    }
    Some(hello)
}

/// Exactly one entry, and that a host's name.
fn server_name(content: &[u8]) -> Option<Name> {
    let mut content = Reader(content);
    let mut list = Reader(content.vector16()?);
    let kind = list.u8()?;
    let name = list.vector16()?;
    if kind != 0 || !list.0.is_empty() || !content.0.is_empty() {
        return None;
    }
    Name::parse_bytes(name).ok()
}

/// Whether the lengths of a list of protocols add up.
fn protocols(content: &[u8]) -> Option<()> {
    let mut content = Reader(content);
    let mut list = Reader(content.vector16()?);
    if !content.0.is_empty() || list.0.is_empty() {
        return None;
    }
    while !list.0.is_empty() {
        if list.vector8()?.is_empty() {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests;
