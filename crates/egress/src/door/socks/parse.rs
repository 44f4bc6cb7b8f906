//! The bytes of SOCKS5 from a client. No I/O.

use std::net::IpAddr;

use crate::{Host, Reason};

const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const CONNECT: u8 = 1;

const IPV4: u8 = 1;
const DOMAIN: u8 = 3;
const IPV6: u8 = 4;

/// Why bytes are no request that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    /// The REP that tells the client.
    pub(crate) reply: u8,
}

const MALFORMED: Fault = Fault {
    reason: Reason::RequestMalformed,
    reply: 1,
};
const NO_SUCH_COMMAND: Fault = Fault {
    reason: Reason::NotSupported,
    reply: 7,
};
const NO_SUCH_ADDRESS: Fault = Fault {
    reason: Reason::NotSupported,
    reply: 8,
};
const NO_HOST: Fault = Fault {
    reason: Reason::NameMalformed,
    reply: 1,
};
const NO_PORT: Fault = Fault {
    reason: Reason::PortMalformed,
    reply: 1,
};

/// Reads a greeting: its length, and whether it offers to go without a password. `None`: there is more to
/// come.
pub(crate) fn greeting(bytes: &[u8]) -> Result<Option<(usize, bool)>, Fault> {
    match *bytes {
        [] | [VERSION] => Ok(None),
        [VERSION, count, ref methods @ ..] => {
            let count = usize::from(count);
            Ok(methods
                .get(..count)
                .map(|methods| (2 + count, methods.contains(&NO_PASSWORD))))
        }
        _ => Err(MALFORMED),
    }
}

/// Reads a request: its length, and whom it wants. `None`: there is more to come.
pub(crate) fn request(bytes: &[u8]) -> Result<Option<(usize, Host, u16)>, Fault> {
    // At the first byte that is wrong: what is no request may never get as long as one.
    for (at, byte) in bytes.iter().take(4).enumerate() {
        match (at, *byte) {
            (0, VERSION) | (1, CONNECT) | (2, 0) | (3, IPV4 | DOMAIN | IPV6) => {}
            (1, _) => return Err(NO_SUCH_COMMAND),
            (3, _) => return Err(NO_SUCH_ADDRESS),
            _ => return Err(MALFORMED),
        }
    }
    let Some((head, rest)) = bytes.split_at_checked(4) else {
        return Ok(None);
    };
    let (skipped, length) = match head[3] {
        IPV4 => (0, 4),
        IPV6 => (0, 16),
        _ => match rest.first() {
            None => return Ok(None),
            Some(0) => return Err(NO_HOST),
            Some(length) => (1, usize::from(*length)),
        },
    };
    let Some((address, port)) = rest[skipped..].split_at_checked(length) else {
        return Ok(None);
    };
    let Some(port) = port.first_chunk() else {
        return Ok(None);
    };
    let port = match u16::from_be_bytes(*port) {
        0 => return Err(NO_PORT),
        port => port,
    };
    let host = host(head[3], address).ok_or(NO_HOST)?;
    Ok(Some((4 + skipped + length + 2, host, port)))
}

fn host(kind: u8, address: &[u8]) -> Option<Host> {
    let address: IpAddr = match kind {
        IPV4 => <[u8; 4]>::try_from(address).ok()?.into(),
        IPV6 => <[u8; 16]>::try_from(address).ok()?.into(),
        // Some programs send an address as if it were a name.
        _ => return Host::parse_bytes(address).ok(),
    };
    Some(address.into())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn domain(name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&443_u16.to_be_bytes());
        bytes
    }

    #[test]
    fn a_greeting_must_offer_to_go_without_a_password() {
        assert_eq!(greeting(&[5, 1, 0]), Ok(Some((3, true))));
        assert_eq!(greeting(&[5, 2, 2, 0, 5]), Ok(Some((4, true))));
        assert_eq!(greeting(&[5, 1, 2]), Ok(Some((3, false))));
        assert_eq!(greeting(&[5, 0]), Ok(Some((2, false))));
        assert_eq!(greeting(&[5, 2, 0]), Ok(None));
        assert_eq!(greeting(&[4, 1]), Err(MALFORMED));
    }

    #[test]
    fn a_request_names_a_host_by_name_or_address() {
        let bytes = domain(b"A.test");
        for end in 0..bytes.len() {
            assert_eq!(request(&bytes[..end]), Ok(None), "{end}");
        }
        let host = Host::parse("a.test").unwrap();
        assert_eq!(request(&bytes), Ok(Some((bytes.len(), host, 443))));
        let bytes = [5, 1, 0, 1, 203, 0, 113, 7, 0, 80, 0xff];
        let host = Host::Address(IpAddr::from([203, 0, 113, 7]));
        assert_eq!(request(&bytes), Ok(Some((10, host, 80))));
    }

    #[test]
    fn row_31_an_ipv4_address_inside_an_ipv6_one_is_seen() {
        let mut bytes = vec![5, 1, 0, 4];
        bytes.extend(Ipv4Addr::new(169, 254, 169, 254).to_ipv6_mapped().octets());
        bytes.extend(80_u16.to_be_bytes());
        let host = Host::Address(IpAddr::from([169, 254, 169, 254]));
        assert_eq!(request(&bytes), Ok(Some((22, host, 80))));
    }

    #[test]
    fn row_12_no_byte_that_a_name_cannot_have() {
        for name in [
            &b"a.test\0.evil.test"[..],
            b"a.test\r\n",
            b"a.test ",
            b"a\ttest.x",
            b"a%00.test",
            b"u@a.test",
            b"a.test:443",
            b"a..test",
            b"\xff\xfe.test",
            b"2852039166",
        ] {
            assert_eq!(request(&domain(name)), Err(NO_HOST), "{name:?}");
        }
        assert_eq!(request(&domain(b"")), Err(NO_HOST));
        assert_eq!(request(&domain(&[b'a'; 255])), Err(NO_HOST));
    }

    #[test]
    fn what_is_not_carried_is_told_apart() {
        for command in [0, 2, 3, 9] {
            assert_eq!(request(&[5, command]), Err(NO_SUCH_COMMAND));
        }
        assert_eq!(request(&[5, 1, 0, 2]), Err(NO_SUCH_ADDRESS));
        assert_eq!(request(&[5, 1, 1]), Err(MALFORMED));
        assert_eq!(request(&[4]), Err(MALFORMED));
        assert_eq!(request(&[5, 1, 0, 1, 203, 0, 113, 7, 0, 0]), Err(NO_PORT));
    }
}
