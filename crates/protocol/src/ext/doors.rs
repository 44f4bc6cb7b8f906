//! The egress boundary's doors, where the worker serves them.
//!
//! The worker listens and forwards. What it says of a connection is a claim of somebody inside, and
//! the host, which decides, takes it for one.

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};

/// Ports of one request, at most.
pub const MAX_DOOR_PORTS: usize = 256;

/// Header of the answer to a parked accept: the door that the connection came by.
pub const DOOR_HEADER: &str = "namzu-door";

/// Header of the answer to a parked accept at [`Door::Named`]: `ADDRESS:PORT` that was connected to.
pub const LOCAL_HEADER: &str = "namzu-local";

/// A door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Door {
    /// HTTP proxy and SOCKS, on port 3128 of the loopback.
    Proxy,
    /// Names, on port 53 of the loopback, over UDP and TCP. Each connection that is forwarded carries
    /// queries and answers with two bytes of length before them, whatever they came by.
    Dns,
    /// A port of every address inside.
    Named,
}

impl Door {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Proxy, Self::Dns, Self::Named];

    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Dns => "dns",
            Self::Named => "named",
        }
    }

    /// The door of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|door| door.as_str() == name)
    }
}

/// Asks for doors to be opened: the loopback's, and those of ports. What is open already stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorsRequest {
    /// Ports that named doors are wanted for, at most [`MAX_DOOR_PORTS`].
    #[serde(default)]
    pub ports: Vec<u16>,
}

/// Which doors are open now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DoorsResponse {
    /// The proxy's.
    pub proxy: bool,
    /// That of names, over UDP and TCP.
    pub dns: bool,
    /// The addresses of names lead to the loopback, so that named doors can be come by.
    pub routed: bool,
    /// Ports that have a named door, in order.
    pub ports: Vec<u16>,
    /// What could not be done, each in a line.
    pub failures: Vec<String>,
}

/// Reads [`LOCAL_HEADER`].
#[must_use]
pub fn parse_local(value: &str) -> Option<SocketAddrV4> {
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext::{from_json, to_json};

    #[test]
    fn the_wire_form_is_fixed() {
        let request: DoorsRequest = from_json(br#"{"ports":[443,80]}"#).unwrap();
        assert_eq!(request.ports, [443, 80]);
        assert!(from_json::<DoorsRequest>(b"{}").unwrap().ports.is_empty());
        from_json::<DoorsRequest>(br#"{"ports":[65536]}"#).unwrap_err();
        from_json::<DoorsRequest>(br#"{"port":443}"#).unwrap_err();
        let answer = DoorsResponse {
            proxy: true,
            dns: true,
            routed: false,
            ports: vec![80],
            failures: vec!["x".to_owned()],
        };
        let text = r#"{"proxy":true,"dns":true,"routed":false,"ports":[80],"failures":["x"]}"#;
        assert_eq!(String::from_utf8(to_json(&answer)).unwrap(), text);
    }

    #[test]
    fn only_doors_have_the_names_of_doors() {
        for door in Door::ALL {
            assert_eq!(Door::parse(door.as_str()), Some(door));
        }
        for name in ["", "Proxy", "any", "dns "] {
            assert_eq!(Door::parse(name), None, "{name}");
        }
    }

    #[test]
    fn only_an_address_with_its_port_is_a_local_address() {
        let read = parse_local("198.18.0.1:443").unwrap();
        assert_eq!((read.ip().octets(), read.port()), ([198, 18, 0, 1], 443));
        for wrong in [
            "",
            "198.18.0.1",
            "[::1]:443",
            "a.test:443",
            " 198.18.0.1:443",
            "198.18.0.1:99999",
        ] {
            assert_eq!(parse_local(wrong), None, "{wrong}");
        }
    }
}
