//! The chain of hashes through the lines.

use std::io::{self, BufRead};
use std::ops::RangeInclusive;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The longest line that is read when a log is verified; those written are far shorter.
const LONGEST: u64 = 1 << 20;

/// Why a log is not what was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// It could not be read.
    #[error("cannot read the audit log")]
    Read(#[from] io::Error),
    /// A line is not one that the boundary wrote there.
    #[error("line {line} of the audit log {what}")]
    Broken {
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Where a chain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Of the line that was written last; 0 before the first.
    seq: u64,
    /// Its hash.
    hash: String,
}

#[derive(Deserialize)]
struct Links {
    seq: u64,
    prev: String,
}

impl Link {
    /// What it adds to a line, about.
    pub(super) const BYTES: usize = 100;

    /// Before the first line.
    pub(super) fn start() -> Self {
        Self {
            seq: 0,
            hash: "0".repeat(64),
        }
    }

    /// After `line`.
    pub(super) fn after(line: &[u8]) -> Option<Self> {
        let links: Links = serde_json::from_slice(line).ok()?;
        Some(Self {
            seq: links.seq,
            hash: hash(line),
        })
    }

    /// The whole line for `open`, a JSON object without its closing brace, as the next of the chain.
    pub(super) fn close(&self, open: &str) -> String {
        format!(
            "{open},\"seq\":{},\"prev\":\"{}\"}}",
            self.seq + 1,
            self.hash
        )
    }

    /// Moves on past `line`, which [`close`](Self::close) made.
    pub(super) fn advance(&mut self, line: &[u8]) {
        self.seq += 1;
        self.hash = hash(line);
    }
}

fn hash(line: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(line) {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}

/// Checks that a log is whole from its first line on, and says how many lines it has. Lines that were cut
/// off its end leave no trace in it: keep the count somewhere else.
///
/// A log in several files is one log, the oldest file first.
///
/// # Errors
///
/// The first line that is not what was written there.
pub fn verify(log: impl BufRead) -> Result<u64, VerifyError> {
    Ok(follow(log, Some(Link::start()))?.map_or(0, |(_, link)| link.seq))
}

/// Checks that a log whose oldest files are gone is whole from the first line that there is, which is taken
/// at its word, and says the numbers of its first and last. Nothing is known of a log without lines: an
/// error.
///
/// # Errors
///
/// The first line that is not what was written there.
pub fn verify_rest(log: impl BufRead) -> Result<RangeInclusive<u64>, VerifyError> {
    match follow(log, None)? {
        Some((first, link)) => Ok(first..=link.seq),
        None => Err(VerifyError::Broken {
            line: 1,
            what: "is missing",
        }),
    }
}

/// Follows a chain that goes on from `link`, or from wherever it is. The number of the first line, and where
/// the last leads.
fn follow(mut log: impl BufRead, link: Option<Link>) -> Result<Option<(u64, Link)>, VerifyError> {
    let mut first = None;
    let mut link = link;
    loop {
        let number = link.as_ref().map_or(1, |link| link.seq + 1);
        let broken = |what| VerifyError::Broken { line: number, what };
        let mut line = Vec::new();
        io::Read::take(&mut log, LONGEST).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(first.zip(link));
        }
        if line.pop() != Some(b'\n') {
            return Err(broken("breaks off"));
        }
        let links: Links =
            serde_json::from_slice(&line).map_err(|_| broken("is no line of an audit log"))?;
        if let Some(link) = &link {
            if links.seq != number {
                return Err(broken("is out of sequence"));
            }
            if links.prev != link.hash {
                return Err(broken("does not follow from the line before it"));
            }
        }
        first = first.or(Some(links.seq));
        link = Some(Link {
            seq: links.seq,
            hash: hash(&line),
        });
    }
}
