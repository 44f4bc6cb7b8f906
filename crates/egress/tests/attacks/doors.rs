//! The ways out, and how a refusal looks at each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hickory_proto::op::Message;
use hickory_proto::rr::RData;

use crate::bench::Place;
use crate::wire::{Reply, Wire};

/// A way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// CONNECT on the proxy port.
    Connect,
    /// A request in absolute form on the proxy port.
    Absolute,
    /// SOCKS5 on the proxy port.
    Socks,
    /// A look-up, and a connection to the address that it gave.
    Named,
    /// A request inside TLS that the boundary ends.
    Intercepted,
}

impl Door {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Connect,
        Self::Absolute,
        Self::Socks,
        Self::Named,
        Self::Intercepted,
    ];

    /// Those that take a name, or what looks like one, with a port.
    pub(crate) const AUTHORITY: &'static [Self] = &[Self::Connect, Self::Absolute, Self::Socks];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Absolute => "absolute",
            Self::Socks => "socks",
            Self::Named => "named",
            Self::Intercepted => "intercepted",
        }
    }
}

/// What became of an attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was let out; what was answered from there.
    Passed(String),
    /// It was refused with an answer in HTTP.
    Http(Reply),
    /// It was refused with SOCKS's code.
    Socks(u8),
    /// The name has no address, with DNS's code.
    NoName(u8),
    /// The connection ended without a word.
    Ended(#[expect(dead_code, reason = "it is shown when a test fails")] String),
}

impl Outcome {
    pub(crate) fn is_refused(&self) -> bool {
        !matches!(self, Self::Passed(_))
    }

    /// The answer that is right for bytes that make no sense.
    pub(crate) fn is_malformed(&self) -> bool {
        match self {
            Self::Http(reply) => matches!(reply.status, 400 | 421),
            Self::Socks(_) | Self::NoName(_) | Self::Ended(_) => true,
            Self::Passed(_) => false,
        }
    }

    /// The answer that is right for what a policy denies.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Self::Http(reply) => matches!(reply.status, 403 | 421) && !reply.reason().is_empty(),
            Self::Socks(code) => *code == 2,
            // NXDOMAIN, or REFUSED.
            Self::NoName(code) => matches!(code, 3 | 5),
            Self::Ended(_) => true,
            Self::Passed(_) => false,
        }
    }
}

impl Place {
    /// Tries to get a page of `host` on `port` by a door. `host` is as a program would write it.
    pub(crate) fn attempt(&self, door: Door, host: &str, port: &str) -> Outcome {
        match door {
            Door::Connect => self.by_connect(host, port),
            Door::Absolute => self.by_absolute(host, port),
            Door::Socks => match port.parse() {
                Ok(port) => self.by_socks(host, port),
                Err(_) => Outcome::Socks(1),
            },
            Door::Named => match port.parse() {
                Ok(port) => self.by_name(host, port),
                Err(_) => Outcome::NoName(1),
            },
            Door::Intercepted => self.by_intercepted(host, port),
        }
    }

    fn by_connect(&self, host: &str, port: &str) -> Outcome {
        let mut wire = self.proxy();
        wire.send(format!(
            "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
        ));
        match wire.head() {
            Ok(reply) if reply.status == 200 => self.through(wire, host, port),
            Ok(reply) => Outcome::Http(reply),
            Err(err) => Outcome::Ended(err.to_string()),
        }
    }

    fn by_absolute(&self, host: &str, port: &str) -> Outcome {
        let mut wire = self.proxy();
        wire.send(format!(
            "GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
        ));
        answered(&mut wire)
    }

    fn by_socks(&self, host: &str, port: u16) -> Outcome {
        let mut wire = self.proxy();
        match socks(&mut wire, &Target::of(host), port) {
            Ok(0) => self.through(wire, host, &port.to_string()),
            Ok(code) => Outcome::Socks(code),
            Err(err) => Outcome::Ended(err.to_string()),
        }
    }

    fn by_name(&self, host: &str, port: u16) -> Outcome {
        let address = match self.resolve(host) {
            Ok(address) => address,
            Err(code) => return Outcome::NoName(code),
        };
        let wire = match self.dial(SocketAddr::new(address.into(), port)) {
            Ok(stream) => Wire::new(stream),
            Err(err) => return Outcome::Ended(err.to_string()),
        };
        self.through(wire, host, &port.to_string())
    }

    /// Within a connection that was opened to a host that is allowed.
    fn by_intercepted(&self, host: &str, port: &str) -> Outcome {
        let mut wire = self.intercepted("inner.test");
        let port = if port == "443" {
            String::new()
        } else {
            format!(":{port}")
        };
        wire.send(format!("GET / HTTP/1.1\r\nHost: {host}{port}\r\n\r\n"));
        answered(&mut wire)
    }

    /// Speaks what the port is for.
    fn through(&self, wire: Wire, host: &str, port: &str) -> Outcome {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let mut wire = match port {
            "443" | "8443" => {
                match wire.tls(self.trust(), name.trim_matches(['[', ']']), &["http/1.1"]) {
                    Ok(wire) => wire,
                    Err(err) => return Outcome::Ended(err.to_string()),
                }
            }
            _ => wire,
        };
        match port {
            "22" => match wire.until(b"\n") {
                Ok(line) if line.starts_with(b"SSH-2.0-outside") => {
                    Outcome::Passed("ssh".to_owned())
                }
                other => Outcome::Ended(format!("{other:?}")),
            },
            "80" | "443" | "8080" | "8443" => {
                wire.send(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"));
                answered(&mut wire)
            }
            _ => {
                wire.send("ping\n");
                match wire.until(b"\n") {
                    Ok(line) => Outcome::Passed(String::from_utf8_lossy(&line).into_owned()),
                    Err(err) => Outcome::Ended(err.to_string()),
                }
            }
        }
    }

    /// Asks for the address of a name, as a program would.
    pub(crate) fn resolve(&self, host: &str) -> Result<Ipv4Addr, u8> {
        let labels: Vec<&[u8]> = host
            .trim_end_matches('.')
            .split('.')
            .map(str::as_bytes)
            .collect();
        let message = query(&labels, A);
        match self.ask_udp(&message) {
            Ok(answer) if answer.code == 0 => answer.address.ok_or(0),
            Ok(answer) => Err(answer.code),
            // What is no question may go unanswered.
            Err(_) => Err(SILENCE),
        }
    }
}

/// Takes an answer for what it is: the boundary's, or one from outside.
pub(crate) fn answered(wire: &mut Wire) -> Outcome {
    match wire.reply() {
        Ok(reply) if reply.status == 200 => Outcome::Passed(reply.body),
        Ok(reply) => Outcome::Http(reply),
        Err(err) => Outcome::Ended(err.to_string()),
    }
}

/// What SOCKS is told.
pub(crate) enum Target {
    Domain(Vec<u8>),
    Address(IpAddr),
}

impl Target {
    fn of(host: &str) -> Self {
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) => Self::Address(address),
            Err(_) => Self::Domain(host.as_bytes().to_vec()),
        }
    }
}

/// Asks for a connection; the code of the answer.
pub(crate) fn socks(wire: &mut Wire, target: &Target, port: u16) -> std::io::Result<u8> {
    wire.send([5, 1, 0]);
    wire.exactly(2)?;
    let mut request = vec![5, 1, 0];
    match target {
        Target::Domain(name) => {
            request.push(3);
            request.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            request.extend(name);
        }
        Target::Address(IpAddr::V4(address)) => {
            request.push(1);
            request.extend(address.octets());
        }
        Target::Address(IpAddr::V6(address)) => {
            request.push(4);
            request.extend(address.octets());
        }
    }
    request.extend(port.to_be_bytes());
    wire.send(request);
    let reply = wire.exactly(4)?;
    if reply[1] == 0 {
        let length = if reply[3] == 4 { 18 } else { 6 };
        wire.exactly(length)?;
    }
    Ok(reply[1])
}

/// Not a code: no answer.
pub(crate) const SILENCE: u8 = u8::MAX;

pub(crate) const A: u16 = 1;

/// A question of one name.
pub(crate) fn query(labels: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        message.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        message.extend_from_slice(label);
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// What a look-up was answered.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) code: u8,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) records: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Resolved {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let message = Message::from_vec(bytes).ok()?;
        let address = message.answers.iter().find_map(|record| match record.data {
            RData::A(address) => Some(address.0),
            _ => None,
        });
        Some(Self {
            code: u8::try_from(u16::from(message.metadata.response_code)).ok()?,
            address,
            records: message.answers.len(),
            bytes: bytes.to_vec(),
        })
    }
}
