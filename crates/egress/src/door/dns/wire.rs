//! Queries and answers in DNS' wire format (RFC 1035, EDNS RFC 6891, extended errors RFC 8914). No I/O.
//!
//! Only what a resolver inside sends is read: one question, and at most the one EDNS record after it.
//! A query has nothing a compressed name could point to, so any pointer is garbage.

use std::net::Ipv4Addr;

use crate::reader::Reader;

/// Longest query that is looked at: with EDNS padding (RFC 8467) they stay below a tenth of it.
pub(crate) const LONGEST_QUERY: usize = 4096;

const HEADER: usize = 12;
const LONGEST_NAME: usize = 255;
const RESPONSE: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const CHECKING_DISABLED: u16 = 0x0010;
/// EDNS, which is no question.
pub(crate) const OPT: u16 = 41;
const EXTENDED_ERROR: u16 = 15;
/// What answers say they can take.
const PAYLOAD: u16 = 1232;

/// The Internet.
pub(crate) const IN: u16 = 1;
/// An IPv4 address.
pub(crate) const A: u16 = 1;
/// A name for a name of an address.
pub(crate) const PTR: u16 = 12;
/// Anything at all, which tunnels like.
pub(crate) const NULL: u16 = 10;
/// Types from here to 255 are questions about more than one record: ANY, AXFR and the like.
pub(crate) const FIRST_META: u16 = 128;
/// The last of them.
pub(crate) const LAST_META: u16 = 255;

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// With or without records.
    NoError = 0,
    /// Not understood.
    FormErr = 1,
    /// The boundary failed.
    ServFail = 2,
    /// No such name.
    NxDomain = 3,
    /// No such operation.
    NotImp = 4,
    /// Not for you.
    Refused = 5,
    /// No such version of EDNS.
    BadVers = 16,
}

/// A question that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query<'a> {
    id: u16,
    flags: u16,
    /// Name, type and class as they were sent: an answer repeats them, letter for letter.
    question: &'a [u8],
    /// The labels with dots between them. `None` where a label holds what no host name has, a dot
    /// among it.
    pub(crate) name: Option<String>,
    /// Its type.
    pub(crate) kind: u16,
    /// Its class.
    pub(crate) class: u16,
    /// It has EDNS, so the answer may.
    pub(crate) edns: bool,
}

/// Bytes that are no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// Nothing to answer: too short for a header, or an answer itself.
    Silent,
    /// To be answered with a code, and no more of it.
    Answered {
        /// Of the query.
        id: u16,
        /// Of the query.
        flags: u16,
        /// Why.
        code: Code,
    },
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Nothing beyond the code.
    None,
    /// An address, and for how many seconds it may be remembered.
    Address(Ipv4Addr, u32),
    /// A name, and for how many seconds it may be remembered.
    Pointer(&'a str, u32),
}

/// Reads a query.
///
/// # Errors
///
/// [`Garbage`].
pub(crate) fn read(message: &[u8]) -> Result<Query<'_>, Garbage> {
    let mut rest = Reader(message);
    let header = (rest.u16(), rest.u16(), rest.u16());
    let (Some(id), Some(flags), Some(questions)) = header else {
        return Err(Garbage::Silent);
    };
    let counts = (rest.u16(), rest.u16(), rest.u16());
    let (Some(answers), Some(authorities), Some(additional)) = counts else {
        return Err(Garbage::Silent);
    };
    // An answer to an answer could go on for ever.
    if flags & RESPONSE != 0 {
        return Err(Garbage::Silent);
    }
    let garbage = |code| Garbage::Answered { id, flags, code };
    if flags & OPCODE != 0 {
        return Err(garbage(Code::NotImp));
    }
    let malformed = || garbage(Code::FormErr);
    let only = (questions, answers, authorities) == (1, 0, 0) && additional <= 1;
    if !only || message.len() > LONGEST_QUERY {
        return Err(malformed());
    }
    let name = rest.name().ok_or_else(malformed)?;
    let kind = rest.u16().ok_or_else(malformed)?;
    let class = rest.u16().ok_or_else(malformed)?;
    let question = message
        .get(HEADER..message.len() - rest.0.len())
        .ok_or_else(malformed)?;
    let mut edns = false;
    if additional == 1 {
        let version = rest.edns().ok_or_else(malformed)?;
        if version != 0 {
            return Err(garbage(Code::BadVers));
        }
        edns = true;
    }
    if !rest.0.is_empty() {
        return Err(malformed());
    }
    Ok(Query {
        id,
        flags,
        question,
        name: text(name),
        kind,
        class,
        edns,
    })
}

/// The labels of a name with dots between them, if they could be of a host.
fn text(name: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut rest = Reader(name);
    loop {
        let label = rest.vector8()?;
        if label.is_empty() {
            return Some(text);
        }
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => {
                    text.push(char::from(*byte));
                }
                _ => return None,
            }
        }
    }
}

impl<'a> Reader<'a> {
    /// A name without compression, with its final empty label.
    fn name(&mut self) -> Option<&'a [u8]> {
        let all = self.0;
        let mut length = 0;
        loop {
            let label = self.u8()?;
            // The two upper bits make a pointer, or nothing that was ever defined.
            if label > 63 {
                return None;
            }
            length += 1 + usize::from(label);
            if length > LONGEST_NAME {
                return None;
            }
            if label == 0 {
                return all.get(..length);
            }
            self.take(usize::from(label))?;
        }
    }

    /// The EDNS record; its version.
    fn edns(&mut self) -> Option<u8> {
        if self.u8()? != 0 || self.u16()? != OPT {
            return None;
        }
        let _payload = self.u16()?;
        let [_code, version, _, _] = self.take(4)?.try_into().ok()?;
        let mut options = Reader(self.vector16()?);
        while !options.0.is_empty() {
            let _option = options.u16()?;
            let _value = options.vector16()?;
        }
        Some(version)
    }
}

impl Garbage {
    /// The answer to it, if it gets one.
    pub(crate) fn answer(self) -> Option<Vec<u8>> {
        let Self::Answered { id, flags, code } = self else {
            return None;
        };
        // An unknown version of EDNS is told in an EDNS record; else nothing is repeated.
        let version = (code == Code::BadVers).then_some("");
        let mut out = header(id, flags, code, (0, 0, u16::from(version.is_some())));
        if version.is_some() {
            edns(&mut out, code, None);
        }
        Some(out)
    }
}

impl Query<'_> {
    /// Writes the answer. `why` goes into it where the query has EDNS, as an extended error: its
    /// number, and a text of at most 160 bytes.
    ///
    /// Whatever it says fits into the 512 bytes that every resolver takes, so nothing is ever cut off.
    pub(crate) fn answer(
        &self,
        code: Code,
        record: Record<'_>,
        why: Option<(u16, &str)>,
    ) -> Vec<u8> {
        let answers = u16::from(record != Record::None);
        let additional = u16::from(self.edns);
        let mut out = header(self.id, self.flags, code, (1, answers, additional));
        out.extend_from_slice(self.question);
        match record {
            Record::None => {}
            Record::Address(address, seconds) => {
                resource(&mut out, A, seconds, &address.octets());
            }
            Record::Pointer(name, seconds) => resource(&mut out, PTR, seconds, &encode(name)),
        }
        if self.edns {
            edns(&mut out, code, why);
        }
        out
    }
}

fn header(
    id: u16,
    asked: u16,
    code: Code,
    (questions, answers, additional): (u16, u16, u16),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let flags = RESPONSE
        | asked & (OPCODE | RECURSION_DESIRED | CHECKING_DISABLED)
        | RECURSION_AVAILABLE
        | code as u16 & 0xf;
    for word in [id, flags, questions, answers, 0, additional] {
        out.extend(word.to_be_bytes());
    }
    out
}

fn resource(out: &mut Vec<u8>, kind: u16, seconds: u32, data: &[u8]) {
    let Ok(length) = u16::try_from(data.len()) else {
        return;
    };
    // The name is the question's, which comes right after the header.
    out.extend([0xc0, 12]);
    out.extend(kind.to_be_bytes());
    out.extend(IN.to_be_bytes());
    out.extend(seconds.to_be_bytes());
    out.extend(length.to_be_bytes());
    out.extend_from_slice(data);
}

fn edns(out: &mut Vec<u8>, code: Code, why: Option<(u16, &str)>) {
    let mut options = Vec::new();
    if let Some((number, text)) = why {
        let text = text.get(..160).unwrap_or(text).as_bytes();
        if let Ok(length) = u16::try_from(text.len() + 2) {
            options.extend(EXTENDED_ERROR.to_be_bytes());
            options.extend(length.to_be_bytes());
            options.extend(number.to_be_bytes());
            options.extend_from_slice(text);
        }
    }
    let upper = (code as u16 >> 4).to_be_bytes()[1];
    out.push(0);
    out.extend(OPT.to_be_bytes());
    out.extend(PAYLOAD.to_be_bytes());
    out.extend([upper, 0, 0, 0]);
    out.extend(
        u16::try_from(options.len())
            .unwrap_or_default()
            .to_be_bytes(),
    );
    out.extend(options);
}

fn encode(name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        // Names were parsed: their labels have at most 63 bytes.
        out.push(u8::try_from(label.len()).unwrap_or_default());
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

#[cfg(test)]
mod tests;
