//! 1 to 21: names and authorities.

use crate::bench::{List, Place};
use crate::doors::{Door, Outcome, Target, socks};

pub(crate) fn list(list: &mut List) {
    allowed(list);
    let long_label = format!("{}.wild.test", "a".repeat(64));
    let long_name = format!("{}wild.test", "aaaaaaa.".repeat(32));
    malformed(list, "003_two_final_dots", "allowed.test..");
    malformed(list, "008_a_leading_dot", ".wild.test");
    malformed(list, "008_an_empty_label", "a..wild.test");
    malformed(list, "008_a_label_of_64", &long_label);
    malformed(list, "008_a_name_of_265", &long_name);
    malformed(
        list,
        "009_user_info_that_is_allowed",
        "allowed.test@evil.test",
    );
    malformed(list, "010_user_info_that_is_evil", "evil.test@allowed.test");
    malformed(list, "010_user_and_password", "evil.test:443@allowed.test");
    malformed(list, "011_an_encoded_nul", "evil.test%00.allowed.test");
    malformed(list, "011_an_encoded_dot", "allowed%2etest");
    malformed(list, "012_a_nul", "evil.test\0.wild.test");
    malformed(list, "012_a_tab", "evil.test\t.wild.test");
    malformed(list, "012_a_space", "evil.test .wild.test");
    malformed(list, "012_a_cr", "evil.test\r.wild.test");
    malformed(list, "012_an_lf", "evil.test\n.wild.test");
    malformed(list, "013_a_fragment", "evil.test#.allowed.test");
    malformed(list, "013_a_backslash", "evil.test\\.allowed.test");
    malformed(
        list,
        "015_a_port_in_the_middle",
        "evil.test:443.allowed.test",
    );
    malformed(list, "015_two_ports", "evil.test:443:allowed.test");
    malformed(list, "017_fullwidth_letters", "ａｌｌｏｗｅｄ.test");
    malformed(list, "017_an_ideographic_stop", "allowed。test");
    // On the proxy, what follows the host is a path or a query: of a host that is denied.
    refused(list, "013_a_path", "evil.test/.allowed.test");
    refused(list, "013_a_query", "evil.test?.allowed.test");
    denied(list, "004_a_name_that_ends_alike", "evilallowed.test");
    denied(list, "005_a_wildcard_without_its_dot", "notwild.test");
    denied(
        list,
        "006_an_allowed_name_in_front",
        "allowed.test.evil.test",
    );
    denied(list, "007_the_apex_of_a_wildcard", "wild.test");
    denied(
        list,
        "007_a_denied_name_below_a_wildcard",
        "denied.wild.test",
    );
    denied(list, "007_a_denied_name_with_a_dot", "denied.wild.test.");
    denied(list, "007_a_denied_name_in_capitals", "DENIED.Wild.Test");
    denied(list, "018_a_look_alike_in_a_labels", "xn--llowed-4ve.test");
    denied(list, "021_a_name_below_localhost", "a.localhost");
    denied(list, "021_a_container_engines_host", "host.docker.internal");
    denied(list, "021_a_clouds_metadata", "metadata.google.internal");
    denied(list, "021_mdns", "printer.local");
    denied(list, "021_onion", "a.onion");
    refused(list, "020_a_single_label", "metadata");
    refused(list, "020_a_single_label_of_a_cluster", "kubernetes");
    refused(list, "021_reverse", "1.0.0.127.in-addr.arpa");
    refused(list, "021_localhost", "localhost");
    refused(list, "021_ip6_localhost", "ip6-localhost");
    list.add("012_bytes_that_are_no_text::socks", |bench| {
        for name in [
            &b"evil.test\xff.wild.test"[..],
            b"",
            b"\0",
            b"allowed.test\0",
        ] {
            let place = Place::open(bench);
            let mut wire = place.proxy();
            let code = socks(&mut wire, &Target::Domain(name.to_vec()), 443);
            assert_ne!(code.unwrap_or(1), 0, "{name:?}");
            place.silent();
        }
    });
}

/// What is only written in another way.
fn allowed(list: &mut List) {
    for (name, host, inner) in [
        ("001_capitals", "ALLOWED.Test", "INNER.Test"),
        ("002_a_final_dot", "allowed.test.", "inner.test."),
        ("019_an_underscore", "_x.wild.test", "inner.test"),
    ] {
        for door in Door::ALL {
            list.add(format!("{name}::{}", door.name()), move |bench| {
                let place = Place::open(bench);
                let intercepted = *door == Door::Intercepted;
                let host = if intercepted { inner } else { host };
                place.zone.host("_x.wild.test", place.block.v4(9));
                let port = if *door == Door::Absolute { "80" } else { "443" };
                // TLS knows no name with an underscore, so such a name is reached in the clear.
                let port = if host.starts_with('_') { "80" } else { port };
                let outcome = place.attempt(*door, host, port);
                assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
                let canonical = host.trim_end_matches('.').to_ascii_lowercase();
                assert_eq!(place.zone.asked(), [canonical.as_str()]);
                let seen = place.one().text();
                assert!(
                    seen.to_ascii_lowercase()
                        .contains(&format!("host: {canonical}\r\n"))
                );
            });
        }
    }
}

/// What is no host at all.
fn malformed(list: &mut List, name: &str, host: &str) {
    for door in Door::ALL {
        if *door == Door::Named && host.ends_with("..") {
            // DNS has no way to write this.
            continue;
        }
        let host = host.to_owned();
        list.add(format!("{name}::{}", door.name()), move |bench| {
            let place = Place::open(bench);
            // A length of DNS or SOCKS is one byte, so what is longer cannot even be asked.
            let outcome = place.attempt(*door, &host, port(*door));
            assert!(outcome.is_malformed(), "{outcome:?}");
            place.silent();
        });
    }
}

/// What is a host, and not allowed.
fn denied(list: &mut List, name: &str, host: &'static str) {
    for door in Door::ALL {
        list.add(format!("{name}::{}", door.name()), move |bench| {
            let place = Place::open(bench);
            let outcome = place.attempt(*door, host, port(*door));
            assert!(outcome.is_denied(), "{outcome:?}");
            place.silent();
        });
    }
}

/// What may be seen either way.
fn refused(list: &mut List, name: &str, host: &'static str) {
    for door in Door::ALL {
        list.add(format!("{name}::{}", door.name()), move |bench| {
            let place = Place::open(bench);
            let outcome = place.attempt(*door, host, port(*door));
            assert!(outcome.is_malformed() || outcome.is_denied(), "{outcome:?}");
            place.silent();
        });
    }
}

const fn port(door: Door) -> &'static str {
    match door {
        Door::Absolute => "80",
        _ => "443",
    }
}
