//! What the host has tried from inside a sandbox, to see whether its walls hold.
//!
//! The worker only tries and says what came of it; the host judges.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Tries of one request, at most.
pub const MAX_TRIES: usize = 64;

/// Asks for things to be tried, all at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// What to try, at most [`MAX_TRIES`].
    pub tries: Vec<Try>,
    /// How long each may take, in milliseconds; at most ten seconds.
    pub patience_ms: u64,
}

/// One thing to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Try {
    /// Connects by TCP.
    Tcp {
        /// Where to.
        to: SocketAddr,
    },
    /// Sends a datagram and waits for an answer.
    Udp {
        /// Where to.
        to: SocketAddr,
    },
    /// Resolves a name, as programs do, and connects to its first address.
    Name {
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
}

/// What came of the tries, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResponse {
    /// One for each.
    pub outcomes: Vec<Outcome>,
}

/// What came of one try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// Something accepted the connection, or answered the datagram.
    Reached {
        /// What the name resolved to; empty where none was asked about.
        #[serde(default)]
        addresses: Vec<IpAddr>,
    },
    /// The system refused it at once.
    Failed {
        /// In its words.
        error: String,
        /// What the name resolved to before.
        #[serde(default)]
        addresses: Vec<IpAddr>,
    },
    /// Nothing came of it in time: neither an answer nor a refusal.
    Silent {
        /// What the name resolved to before.
        #[serde(default)]
        addresses: Vec<IpAddr>,
    },
}

impl Outcome {
    /// What the name resolved to.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        let (Self::Reached { addresses }
        | Self::Failed { addresses, .. }
        | Self::Silent { addresses }) = self;
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext::{from_json, to_json};

    #[test]
    fn the_wire_form_is_fixed() {
        let request = ProbeRequest {
            tries: vec![
                Try::Tcp {
                    to: "192.0.2.1:80".parse().unwrap(),
                },
                Try::Udp {
                    to: "[2001:db8::1]:53".parse().unwrap(),
                },
                Try::Name {
                    name: "a.test".to_owned(),
                    port: 443,
                },
            ],
            patience_ms: 1000,
        };
        let text = r#"{"tries":[{"kind":"tcp","to":"192.0.2.1:80"},{"kind":"udp","to":"[2001:db8::1]:53"},{"kind":"name","name":"a.test","port":443}],"patience_ms":1000}"#;
        assert_eq!(String::from_utf8(to_json(&request)).unwrap(), text);
        assert_eq!(from_json::<ProbeRequest>(text.as_bytes()).unwrap(), request);
    }

    #[test]
    fn an_outcome_says_what_the_name_led_to() {
        let json = br#"{"outcomes":[{"kind":"silent"},{"kind":"failed","error":"x","addresses":["198.18.0.1"]},{"kind":"reached"}]}"#;
        let answer: ProbeResponse = from_json(json).unwrap();
        let found: Vec<_> = answer.outcomes.iter().map(Outcome::addresses).collect();
        let one: IpAddr = "198.18.0.1".parse().unwrap();
        assert_eq!(found, [&[][..], &[one], &[]]);
    }
}
