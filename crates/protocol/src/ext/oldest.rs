//! The `Namzu-Oldest` header: `stdout=N,stderr=N,pty=N`.

use crate::process::Cursor;

/// Text that is no `Namzu-Oldest` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form stdout=N,stderr=N,pty=N")]
pub struct InvalidOldest;

/// Writes the oldest positions that can still be replayed.
#[must_use]
pub fn format_oldest(oldest: &Cursor) -> String {
    format!(
        "stdout={},stderr={},pty={}",
        oldest.stdout, oldest.stderr, oldest.pty
    )
}

/// Reads the oldest positions that can still be replayed.
///
/// # Errors
///
/// [`InvalidOldest`] unless it is exactly what [`format_oldest`] writes.
pub fn parse_oldest(header: &str) -> Result<Cursor, InvalidOldest> {
    let mut parts = header.split(',');
    let mut next = |name: &str| {
        let (key, digits) = parts.next()?.split_once('=')?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        (key == name && plain).then(|| digits.parse().ok())?
    };
    let cursor = Cursor {
        stdout: next("stdout").ok_or(InvalidOldest)?,
        stderr: next("stderr").ok_or(InvalidOldest)?,
        pty: next("pty").ok_or(InvalidOldest)?,
    };
    match parts.next() {
        None => Ok(cursor),
        Some(_) => Err(InvalidOldest),
    }
}
