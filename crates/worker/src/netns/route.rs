//! The addresses of names lead to the loopback. Spoken with the kernel directly: three messages.

use std::io;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// The first network device of every network namespace.
const LO: u32 = 1;

/// The addresses that names get: `198.18.0.0/15`.
const NAMES: ([u8; 4], u8) = ([198, 18, 0, 0], 15);

/// `IFF_UP`, `AF_INET`, and of `linux/rtnetlink.h` what a route of our own is.
const IFF_UP: u32 = 1;
const AF_INET: u8 = 2;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;

const HEADER: usize = 16;

/// One address of them, which the loopback is given. Where it had 127.0.0.1 alone, programs that ask
/// the C library for addresses they can use (`AI_ADDRCONFIG`) would be told that there are none.
const OWN: [u8; 4] = [198, 18, 0, 1];

/// Brings the loopback up and routes the addresses of names to it. Once or again.
pub(crate) fn set_up() -> io::Result<()> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is 0.
        None,
    )?;
    for message in [link_up(), address(), route()] {
        // To nobody in particular is to the kernel.
        send(&kernel, &message, SendFlags::empty())?;
        let mut answer = [0; 256];
        let (length, _) = recv(&kernel, &mut answer, RecvFlags::empty())?;
        accepted(answer.get(..length).unwrap_or_default())?;
    }
    Ok(())
}

/// `ip link set lo up`.
fn link_up() -> Vec<u8> {
    let mut body = vec![0; 4];
    for word in [LO, IFF_UP, IFF_UP] {
        body.extend(word.to_ne_bytes());
    }
    message(RTM_NEWLINK, 0, &body)
}

/// `ip address replace 198.18.0.1/32 dev lo scope host`.
fn address() -> Vec<u8> {
    let mut body = vec![AF_INET, 32, 0, RT_SCOPE_HOST];
    body.extend(LO.to_ne_bytes());
    attribute(&mut body, IFA_LOCAL, OWN);
    attribute(&mut body, IFA_ADDRESS, OWN);
    message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &body)
}

/// `ip route replace local 198.18.0.0/15 dev lo`.
fn route() -> Vec<u8> {
    let (network, prefix) = NAMES;
    let mut body = vec![
        AF_INET,
        prefix,
        0,
        0,
        RT_TABLE_LOCAL,
        RTPROT_STATIC,
        RT_SCOPE_HOST,
        RTN_LOCAL,
    ];
    body.extend(0_u32.to_ne_bytes());
    attribute(&mut body, RTA_DST, network);
    attribute(&mut body, RTA_OIF, LO.to_ne_bytes());
    message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &body)
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: [u8; 4]) {
    body.extend(8_u16.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut message = Vec::from(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
    // Neither a sequence nor an address: there is one question at a time.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// What the kernel says to a message.
fn accepted(answer: &[u8]) -> io::Result<()> {
    let at = |from: usize, to: usize| answer.get(from..to);
    let kind = at(4, 6).and_then(|bytes| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
    let code =
        at(HEADER, HEADER + 4).and_then(|bytes| Some(i32::from_ne_bytes(bytes.try_into().ok()?)));
    match (kind, code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the order of this machine, as the kernel reads it.
    fn words(bytes: &[u8]) -> Vec<u32> {
        let (words, rest) = bytes.as_chunks();
        assert!(rest.is_empty());
        words.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    #[test]
    fn the_loopback_is_brought_up_and_nothing_else_of_it_changes() {
        let message = link_up();
        let words = words(&message);
        assert_eq!(words[0] as usize, message.len());
        assert_eq!(message[4..6], 16_u16.to_ne_bytes());
        assert_eq!(message[6..8], 5_u16.to_ne_bytes());
        // Index, flags, and which of them are meant.
        assert_eq!(words[5..], [1, 1, 1]);
    }

    #[test]
    fn the_loopback_gets_one_address_of_its_own() {
        let message = address();
        assert_eq!(words(&message)[0] as usize, message.len());
        assert_eq!(message[4..6], 20_u16.to_ne_bytes());
        assert_eq!(message[6..8], 0x505_u16.to_ne_bytes());
        assert_eq!(message[16..20], [2, 32, 0, 254]);
        assert_eq!(message[20..24], 1_u32.to_ne_bytes());
        for (at, kind) in [(24, 2_u16), (32, 1)] {
            assert_eq!(message[at..at + 2], 8_u16.to_ne_bytes());
            assert_eq!(message[at + 2..at + 4], kind.to_ne_bytes());
            assert_eq!(message[at + 4..at + 8], [198, 18, 0, 1]);
        }
        assert_eq!(message.len(), 40);
    }

    #[test]
    fn the_route_is_local_and_of_the_names_only() {
        let message = route();
        assert_eq!(words(&message)[0] as usize, message.len());
        assert_eq!(message[4..6], 24_u16.to_ne_bytes());
        assert_eq!(message[6..8], 0x505_u16.to_ne_bytes());
        assert_eq!(message[16..24], [2, 15, 0, 0, 255, 4, 254, 2]);
        assert_eq!(message[24..28], [0; 4]);
        assert_eq!(message[28..30], 8_u16.to_ne_bytes());
        assert_eq!(message[30..32], 1_u16.to_ne_bytes());
        assert_eq!(message[32..36], [198, 18, 0, 0]);
        assert_eq!(message[36..38], 8_u16.to_ne_bytes());
        assert_eq!(message[38..40], 4_u16.to_ne_bytes());
        assert_eq!(message[40..44], 1_u32.to_ne_bytes());
        assert_eq!(message.len(), 44);
    }

    #[test]
    fn only_an_answer_of_no_error_is_taken_for_consent() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = vec![0; 4];
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        accepted(&answer(2, 0)).unwrap();
        let refused = accepted(&answer(2, -1)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(1));
        accepted(&answer(2, i32::MIN)).unwrap_err();
        accepted(&answer(3, 0)).unwrap_err();
        accepted(&[]).unwrap_err();
        accepted(&answer(2, 0)[..19]).unwrap_err();
    }
}
