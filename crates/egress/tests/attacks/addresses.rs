//! 26 to 44, and 49, 50: addresses, in every spelling and behind names.

use std::net::IpAddr;

use namzu_testkit::network::{HOST_V4, HOST_V6, Record};
use namzu_types::{EgressPolicy, EgressScheme};

use crate::bench::{List, Place, rule, rules, strings};
use crate::doors::{Door, Outcome};

pub(crate) fn list(list: &mut List) {
    literals(list);
    behind_names(list);
    rules_for_addresses(list);
    allow_all(list);
}

/// Written as a host.
fn literals(list: &mut List) {
    for (name, host) in [
        ("026_a_public_address", "45.1.1.1"),
        ("026_a_public_ipv6_address", "[2a0b:1::1]"),
        ("027_decimal", "2852039166"),
        ("027_decimal_of_loopback", "2130706433"),
        ("028_hexadecimal", "0xa9fea9fe"),
        ("028_hexadecimal_parts", "0xa9.0xfe.0xa9.0xfe"),
        ("029_octal", "0251.0376.0251.0376"),
        ("029_leading_zeros", "169.254.169.0254"),
        ("030_fewer_parts", "169.254.43518"),
        ("030_loopback_in_two_parts", "127.1"),
        ("031_mapped_in_hexadecimal", "[::ffff:a9fe:a9fe]"),
        ("031_mapped_in_decimal", "[::ffff:169.254.169.254]"),
        ("032_compatible", "[::169.254.169.254]"),
        ("033_nat64", "[64:ff9b::a9fe:a9fe]"),
        ("034_local_nat64", "[64:ff9b:1::a9fe:a9fe]"),
        ("035_6to4", "[2002:a9fe:a9fe::1]"),
        ("036_teredo", "[2001:0:a9fe:a9fe::1]"),
        ("037_isatap", "[2a0b:ffff::5efe:a9fe:a9fe]"),
        ("038_a_zone", "[fe80::1%eth0]"),
        ("038_an_encoded_zone", "[fe80::1%25eth0]"),
        (
            "038_a_zone_that_looks_allowed",
            "[::ffff:1.2.3.4%x.allowed.test]",
        ),
        ("039_nowhere", "0.0.0.0"),
        ("039_nowhere_in_ipv6", "[::]"),
        ("040_metadata", "169.254.169.254"),
        ("040_metadata_with_a_dot", "169.254.169.254."),
        ("040_container_credentials", "169.254.170.2"),
        ("041_alibabas_metadata", "100.100.100.200"),
        ("041_amazons_metadata_in_ipv6", "[fd00:ec2::254]"),
        ("042_azures_wire_server", "168.63.129.16"),
        ("043_loopback", "127.0.0.1"),
        ("043_loopback_in_ipv6", "[::1]"),
        ("043_the_hosts_own", "51.15.77.2"),
        ("043_the_hosts_own_in_ipv6", "[2a01:4f8:77::2]"),
        ("044_multicast", "224.0.0.1"),
        ("044_broadcast", "255.255.255.255"),
        ("044_reserved", "240.0.0.1"),
        ("044_a_test_net", "203.0.113.1"),
        ("044_benchmarks", "198.18.0.1"),
        ("049_private", "10.0.0.1"),
        ("049_private_in_ipv6", "[fd12::1]"),
    ] {
        for door in [
            Door::Connect,
            Door::Absolute,
            Door::Socks,
            Door::Intercepted,
        ] {
            list.add(format!("{name}::{}", door.name()), move |bench| {
                let place = Place::open(bench);
                let port = if door == Door::Absolute { "80" } else { "443" };
                let outcome = place.attempt(door, host, port);
                assert!(outcome.is_malformed() || outcome.is_denied(), "{outcome:?}");
                place.silent();
            });
        }
    }
}

/// What an allowed name leads to.
fn behind_names(list: &mut List) {
    for (name, addresses) in [
        ("031_mapped_metadata", &["::ffff:169.254.169.254"][..]),
        ("032_compatible_metadata", &["::169.254.169.254"]),
        ("033_nat64_metadata", &["64:ff9b::a9fe:a9fe"]),
        ("033_nat64_private", &["64:ff9b::a00:1"]),
        ("034_local_nat64", &["64:ff9b:1::a9fe:a9fe"]),
        (
            "034_local_nat64_with_a_long_prefix",
            &["64:ff9b:1:a9fe:a9:fe00::"],
        ),
        ("035_6to4_metadata", &["2002:a9fe:a9fe::1"]),
        ("036_teredo", &["2001:0:5601:5601::1"]),
        ("037_isatap", &["2a0b:ffff::5efe:a00:1"]),
        (
            "037_isatap_of_a_global_address",
            &["2a0b:ffff::200:5efe:a9fe:a9fe"],
        ),
        ("038_link_local", &["fe80::1"]),
        ("039_nowhere", &["0.0.0.0"]),
        ("039_this_network", &["0.1.2.3"]),
        ("039_nowhere_in_ipv6", &["::"]),
        ("040_metadata", &["169.254.169.254"]),
        ("040_container_credentials", &["169.254.170.2"]),
        ("040_pod_identity", &["169.254.170.23"]),
        ("040_link_local", &["169.254.1.1"]),
        ("041_alibabas_metadata", &["100.100.100.200"]),
        ("041_oracles_metadata", &["192.0.0.192"]),
        ("041_amazons_metadata_in_ipv6", &["fd00:ec2::254"]),
        ("041_googles_metadata_in_ipv6", &["fd20:ce::254"]),
        ("041_oracles_metadata_in_ipv6", &["fd00:c1::a9fe:a9fe"]),
        ("041_scaleways_metadata_in_ipv6", &["fd00:42::42"]),
        ("041_another_metadata_in_ipv6", &["fd00:a9fe:a9fe::1"]),
        ("041_alibabas_metadata_in_ipv6", &["fd00:100::100:200"]),
        ("042_azures_wire_server", &["168.63.129.16"]),
        ("044_multicast", &["224.0.0.1"]),
        ("044_multicast_in_ipv6", &["ff02::1"]),
        ("044_broadcast", &["255.255.255.255"]),
        ("044_reserved", &["240.0.0.1"]),
        ("044_protocol_assignments", &["192.0.0.8"]),
        ("044_test_net_1", &["192.0.2.1"]),
        ("044_test_net_2", &["198.51.100.1"]),
        ("044_test_net_3", &["203.0.113.1"]),
        ("044_benchmarks", &["198.19.255.1"]),
        ("044_discard", &["100::1"]),
        ("044_documentation", &["2001:db8::1"]),
        ("044_site_local", &["fec0::1"]),
        (
            "047_private_ipv6_beside_a_public_one",
            &["45.0.0.9", "fd12::1"],
        ),
        (
            "047_private_beside_public_ipv6",
            &["2a0b:ffff::1", "10.0.0.1"],
        ),
        (
            "047_metadata_last_of_many",
            &["45.0.0.9", "45.0.0.10", "169.254.169.254"],
        ),
        ("049_private_10", &["10.0.0.1"]),
        ("049_private_172", &["172.31.255.254"]),
        ("049_private_192", &["192.168.0.1"]),
        ("049_shared", &["100.64.0.1"]),
        ("049_unique_local", &["fd12:3456::1"]),
        ("050_loopback", &["127.0.0.1"]),
        ("050_another_loopback", &["127.255.255.254"]),
        ("050_mapped_loopback", &["::ffff:127.0.0.1"]),
        ("050_loopback_in_ipv6", &["::1"]),
    ] {
        let parsed = addresses.iter().map(|text| text.parse().unwrap());
        behind(list, name, &parsed.collect::<Vec<_>>());
    }
    behind(list, "043_the_hosts_own", &[HOST_V4.into()]);
    behind(list, "043_the_hosts_own_in_ipv6", &[HOST_V6.into()]);
}

fn behind(list: &mut List, name: &str, addresses: &[IpAddr]) {
    for door in Door::ALL {
        let addresses = addresses.to_vec();
        list.add(
            format!("{name}_behind_a_name::{}", door.name()),
            move |bench| {
                let place = Place::open(bench);
                let set = |name: &str| place.zone.set(name, Record::Addresses(addresses));
                let outcome = match door {
                    Door::Intercepted => {
                        set("inner.test");
                        place.attempt(Door::Connect, "inner.test", "443")
                    }
                    Door::Absolute => {
                        set("lead.wild.test");
                        place.attempt(*door, "lead.wild.test", "80")
                    }
                    _ => {
                        set("lead.wild.test");
                        place.attempt(*door, "lead.wild.test", "443")
                    }
                };
                // The name is allowed, so its connection by name is ended when it is dialled.
                assert!(outcome.is_denied(), "{outcome:?}");
                if let Outcome::Http(reply) = outcome {
                    let reasons = ["address_forbidden", "address_private"];
                    assert!(reasons.contains(&reply.reason()), "{}", reply.head);
                }
                place.unreached();
                assert_eq!(place.zone.asked().len(), 1);
            },
        );
    }
}

/// Addresses that a rule names.
fn rules_for_addresses(list: &mut List) {
    list.add("026_an_address_that_a_rule_names_passes", |bench| {
        let place = Place::with(bench, |block| {
            let mut named = rule(&block.v4(20).to_string());
            named.scheme = EgressScheme::Tcp;
            named.ports = vec![6379];
            rules(vec![named])
        });
        let host = place.block.v4(20).to_string();
        for door in [Door::Connect, Door::Socks] {
            let outcome = place.attempt(door, &host, "6379");
            assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
            let other = place.attempt(door, &host, "5432");
            assert!(other.is_denied(), "{other:?}");
            let next = place.attempt(door, &place.block.v4(21).to_string(), "6379");
            assert!(next.is_denied(), "{next:?}");
        }
        assert_eq!(place.reached().len(), 2);
        assert_eq!(place.zone.asked(), Vec::<String>::new());
    });
    list.add(
        "049_a_private_address_that_a_rule_lets_a_name_lead_to_passes",
        |bench| {
            let place = Place::with(bench, |block| {
                let mut named = rule("db.corp.test");
                named.scheme = EgressScheme::Tcp;
                named.ports = vec![5432];
                named.inward = vec![format!("{}/32", block.private(5))];
                rules(vec![named])
            });
            place.zone.host("db.corp.test", place.block.private(5));
            for door in [Door::Connect, Door::Socks, Door::Named] {
                let outcome = place.attempt(door, "db.corp.test", "5432");
                assert!(
                    matches!(outcome, Outcome::Passed(_)),
                    "{door:?}: {outcome:?}"
                );
            }
            place.zone.host("db.corp.test", place.block.private(6));
            let outcome = place.attempt(Door::Connect, "db.corp.test", "5432");
            assert!(outcome.is_denied(), "beside the range: {outcome:?}");
            assert_eq!(place.reached().len(), 3);
        },
    );
    for (name, host, inward) in [
        ("040_metadata", "169.254.169.254", &[][..]),
        ("040_a_range_with_metadata", "169.254.0.0/16", &[]),
        (
            "040_metadata_as_inward",
            "a.test.test",
            &["169.254.169.254/32"],
        ),
        ("042_azures_wire_server", "168.63.129.16", &[]),
        ("041_amazons_metadata_in_ipv6", "fd00:ec2::254", &[]),
        ("044_multicast", "224.0.0.0/4", &[]),
        ("044_everything", "0.0.0.0/0", &[]),
        ("020_everything", "*", &[]),
        ("020_a_public_suffix", "*.com", &[]),
    ] {
        list.add(
            format!("{name}_in_a_rule_is_refused_or_reaches_nothing"),
            move |bench| {
                let policy = move || {
                    let mut named = rule(host);
                    named.scheme = EgressScheme::Tcp;
                    named.ports = vec![80];
                    named.inward = strings(inward);
                    rules(vec![named])
                };
                // Refused at load, or screened when it is dialled: never reached.
                let Ok(place) = Place::try_with(bench, |_| policy()) else {
                    return;
                };
                place
                    .zone
                    .host("a.test.test", "169.254.169.254".parse::<IpAddr>().unwrap());
                let hosts = [
                    "169.254.169.254",
                    "168.63.129.16",
                    "[fd00:ec2::254]",
                    "a.test.test",
                ];
                for host in hosts {
                    let outcome = place.attempt(Door::Connect, host, "80");
                    assert!(outcome.is_refused(), "{outcome:?}");
                }
                place.unreached();
            },
        );
    }
}

/// Some addresses are for no policy.
fn allow_all(list: &mut List) {
    for (name, address) in [
        ("040_metadata", "169.254.169.254"),
        ("041_amazons_metadata_in_ipv6", "fd00:ec2::254"),
        ("042_azures_wire_server", "168.63.129.16"),
        ("043_loopback", "127.0.0.1"),
        ("043_the_hosts_own", "51.15.77.2"),
        ("031_mapped_metadata", "::ffff:169.254.169.254"),
        ("044_multicast", "224.0.0.1"),
    ] {
        for door in [Door::Connect, Door::Socks, Door::Absolute] {
            list.add(
                format!("{name}_under_allow_all::{}", door.name()),
                move |bench| {
                    let place = Place::with(bench, |_| EgressPolicy::AllowAll);
                    let address: IpAddr = address.parse().unwrap();
                    place.zone.host("lead.test", address);
                    let literal = match address {
                        IpAddr::V4(address) => address.to_string(),
                        IpAddr::V6(address) => format!("[{address}]"),
                    };
                    for host in [literal.as_str(), "lead.test"] {
                        let outcome = place.attempt(door, host, "80");
                        assert!(outcome.is_denied() || outcome.is_malformed(), "{outcome:?}");
                    }
                    place.unreached();
                },
            );
        }
    }
    list.add("control::allow_all_reaches_the_rest", |bench| {
        let place = Place::with(bench, |_| EgressPolicy::AllowAll);
        let outcome = place.attempt(Door::Connect, "anything.test", "443");
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
    });
}
