//! 22 to 25: ports.

use crate::bench::{List, Place};
use crate::doors::{Door, Outcome};

pub(crate) fn list(list: &mut List) {
    for port in ["22", "25", "853", "6379", "8080", "8443"] {
        for door in [Door::Connect, Door::Socks, Door::Absolute, Door::Named] {
            let number = if door == Door::Absolute { 23 } else { 22 };
            list.add(
                format!("0{number}_port_{port}_of_an_allowed_name::{}", door.name()),
                move |bench| {
                    let place = Place::open(bench);
                    let outcome = place.attempt(door, "allowed.test", port);
                    assert!(outcome.is_denied(), "{outcome:?}");
                    if let Outcome::Http(reply) = outcome {
                        assert_eq!(reply.reason(), "port_not_listed");
                    }
                    place.silent();
                },
            );
        }
    }
    for (name, port) in [
        ("024_port_0", "0"),
        ("024_an_empty_port", ""),
        ("024_letters_after_the_port", "443abc"),
        ("024_a_signed_port", "+443"),
        ("024_a_space_before_the_port", " 443"),
        ("024_a_long_port", "000443"),
        ("025_a_port_beyond_the_largest", "65979"),
        ("025_a_port_that_wraps_around", "4294967739"),
    ] {
        for door in [Door::Connect, Door::Absolute] {
            if port.is_empty() && door == Door::Absolute {
                // In a URL an empty port is the usual one.
                continue;
            }
            list.add(format!("{name}::{}", door.name()), move |bench| {
                let place = Place::open(bench);
                let outcome = place.attempt(door, "allowed.test", port);
                assert!(outcome.is_malformed(), "{outcome:?}");
                place.silent();
                // And it is still there.
                let outcome = place.attempt(Door::Connect, "allowed.test", "443");
                assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
            });
        }
    }
    list.add("024_no_port::connect", |bench| {
        let place = Place::open(bench);
        let mut wire = place.proxy();
        wire.send("CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
        assert_eq!(wire.reply().unwrap().status, 400);
        place.silent();
    });
    list.add("024_port_0::socks", |bench| {
        let place = Place::open(bench);
        let outcome = place.attempt(Door::Socks, "allowed.test", "0");
        assert!(matches!(outcome, Outcome::Socks(1..)), "{outcome:?}");
        place.silent();
    });
}
