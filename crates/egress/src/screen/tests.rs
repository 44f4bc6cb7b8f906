//! The rows of the attack list that are about addresses.

use super::*;

fn check(address: &str) -> Result<(), Reason> {
    Screen::default().check(address.parse().unwrap(), &[])
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Opens all that can be opened.
fn everything() -> Vec<IpNet> {
    nets(&["0.0.0.0/0", "::/0"])
}

/// Whatever a rule says.
fn always_denied(addresses: &[&str]) {
    for address in addresses {
        let parsed = address.parse().unwrap();
        let screened = Screen::default().check(parsed, &everything());
        assert_eq!(screened, Err(Reason::AddressForbidden), "{address}");
    }
}

fn denied_without_inward(addresses: &[&str]) {
    for address in addresses {
        assert_eq!(check(address), Err(Reason::AddressPrivate), "{address}");
        let screened = Screen::default().check(address.parse().unwrap(), &everything());
        assert_eq!(screened, Ok(()), "{address}");
    }
}

#[test]
fn public_addresses_pass() {
    for address in [
        "1.1.1.1",
        "93.184.216.34",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "2001:200::1",
    ] {
        assert_eq!(check(address), Ok(()), "{address}");
    }
}

#[test]
fn private_addresses_pass_only_where_a_rule_opens_them() {
    denied_without_inward(&[
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "127.0.0.1",
        "127.255.255.254",
        "100.64.0.1",
        "100.127.255.254",
        "::1",
        "fc00::1",
        "fdff::1",
    ]);
}

#[test]
fn inward_opens_no_more_than_it_covers() {
    let inward = nets(&["10.1.0.0/16"]);
    let screen = Screen::default();
    assert_eq!(screen.check("10.1.2.3".parse().unwrap(), &inward), Ok(()));
    for address in ["10.2.0.1", "192.168.0.1", "::1"] {
        let screened = screen.check(address.parse().unwrap(), &inward);
        assert_eq!(screened, Err(Reason::AddressPrivate), "{address}");
    }
}

#[test]
fn row_31_and_32_mapped_and_compatible_addresses_are_screened_as_ipv4() {
    always_denied(&[
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "::ffff:0.0.0.0",
        "::2",
    ]);
    denied_without_inward(&["::ffff:10.0.0.1", "::10.0.0.1", "::ffff:127.0.0.1"]);
    assert_eq!(check("::ffff:1.1.1.1"), Ok(()));
}

#[test]
fn row_33_nat64_is_screened_as_ipv4() {
    always_denied(&["64:ff9b::169.254.169.254", "64:ff9b::100.100.100.200"]);
    denied_without_inward(&["64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1"]);
    assert_eq!(check("64:ff9b::1.1.1.1"), Ok(()));
}

#[test]
fn row_34_a_local_nat64_prefix_is_refused_unless_the_operator_names_it() {
    always_denied(&["64:ff9b:1::1.1.1.1", "64:ff9b:1:ffff::1"]);
    let screen = Screen {
        own: Vec::new(),
        nat64: nets(&["64:ff9b:1::/96"]),
    };
    let check = |address: &str| screen.check(address.parse().unwrap(), &[]);
    assert_eq!(check("64:ff9b:1::1.1.1.1"), Ok(()));
    assert_eq!(check("64:ff9b:1::10.0.0.1"), Err(Reason::AddressPrivate));
    assert_eq!(
        check("64:ff9b:1::169.254.169.254"),
        Err(Reason::AddressForbidden)
    );
    assert_eq!(check("64:ff9b:1:1::1.1.1.1"), Err(Reason::AddressForbidden));
}

/// The examples of RFC 6052 §2.4, with 192.0.2.33 replaced by 10.0.2.33.
#[test]
fn row_34_prefixes_of_operators_are_decoded() {
    for (prefix, address) in [
        ("2001:4db8::/32", "2001:4db8:a00:221::"),
        ("2001:4db8:100::/40", "2001:4db8:10a:2:21::"),
        ("2001:4db8:122::/48", "2001:4db8:122:a00:2:2100::"),
        ("2001:4db8:122:300::/56", "2001:4db8:122:30a:0:221::"),
        ("2001:4db8:122:344::/64", "2001:4db8:122:344:a:2:2100:0"),
        ("2001:4db8:122:344::/96", "2001:4db8:122:344::10.0.2.33"),
    ] {
        let screen = Screen {
            own: Vec::new(),
            nat64: nets(&[prefix]),
        };
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(check(&address.to_string()), Ok(()), "{prefix}");
        assert_eq!(
            screen.check(address, &[]),
            Err(Reason::AddressPrivate),
            "{prefix}"
        );
        assert_eq!(
            screen.check(address, &nets(&["10.0.2.33/32"])),
            Ok(()),
            "{prefix}"
        );
    }
}

#[test]
fn row_34_a_prefix_that_cannot_be_decoded_forbids() {
    let screen = Screen {
        own: Vec::new(),
        nat64: nets(&["2001:4db8::/33"]),
    };
    let screened = screen.check("2001:4db8::1".parse().unwrap(), &everything());
    assert_eq!(screened, Err(Reason::AddressForbidden));
}

#[test]
fn row_35_tunnels_are_refused() {
    // 6to4, Teredo, ISATAP under a public and under a private prefix.
    always_denied(&[
        "2002:a9fe:a9fe::1",
        "2002:101:101::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2606:4700::5efe:10.0.0.1",
        "2606:4700::200:5efe:10.0.0.1",
        "fd00:1::5efe:10.0.0.1",
    ]);
}

#[test]
fn row_39_unspecified_addresses_are_denied() {
    always_denied(&["0.0.0.0", "0.1.2.3", "::"]);
}

#[test]
fn row_40_link_local_addresses_are_denied() {
    always_denied(&[
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.0.1",
        "fe80::1",
        "fe80::a9fe:a9fe",
    ]);
}

#[test]
fn row_41_metadata_services_of_other_clouds_are_denied() {
    always_denied(&[
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::1",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
        "fd00:a9fe:a9fe::1",
        "fd00:100::100:200",
    ]);
}

#[test]
fn row_42_the_wire_server_of_azure_is_denied() {
    always_denied(&[
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "64:ff9b::168.63.129.16",
    ]);
    assert_eq!(check("168.63.129.17"), Ok(()));
}

#[test]
fn row_43_the_hosts_own_addresses_are_denied_without_inward() {
    let own = [
        "93.184.216.34".parse().unwrap(),
        "::ffff:93.184.216.35".parse().unwrap(),
    ];
    let screen = Screen {
        own: own.to_vec(),
        nat64: Vec::new(),
    };
    for address in [
        "93.184.216.34",
        "93.184.216.35",
        "::ffff:93.184.216.34",
        "64:ff9b::93.184.216.34",
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(screen.check(address, &[]), Err(Reason::AddressPrivate));
        assert_eq!(screen.check(address, &nets(&["93.184.216.0/24"])), Ok(()));
    }
    assert_eq!(screen.check("93.184.216.36".parse().unwrap(), &[]), Ok(()));
}

#[test]
fn row_44_what_is_nobodys_is_denied() {
    always_denied(&[
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.1",
        "198.18.0.1",
        "198.19.255.255",
        "192.88.99.1",
        "100::1",
        "2001:db8::1",
        "3fff::1",
        "fec0::1",
        "ff02::1",
        "5f00::1",
        "4000::1",
        "2001:10::1",
    ]);
}

#[test]
fn row_45_and_47_one_bad_address_spoils_the_answer() {
    let screen = Screen::default();
    let check = |texts: &[&str]| {
        let addresses: Vec<_> = texts.iter().map(|text| text.parse().unwrap()).collect();
        screen.check_all(&addresses, &[])
    };
    assert_eq!(check(&["1.1.1.1", "2606:4700::1111"]), Ok(()));
    assert_eq!(check(&["1.1.1.1", "fd00::1"]), Err(Reason::AddressPrivate));
    assert_eq!(
        check(&["10.0.0.1", "2606:4700::1111"]),
        Err(Reason::AddressPrivate)
    );
    assert_eq!(
        check(&["10.0.0.1", "169.254.0.1", "10.0.0.2"]),
        Err(Reason::AddressForbidden)
    );
    assert_eq!(check(&[]), Err(Reason::LookupFailed));
}

#[test]
fn the_tables_agree_with_the_ranges_that_rules_name() {
    for range in nets(&[
        "169.254.0.0/16",
        "169.254.1.0/24",
        "fe80::/10",
        "ff00::/8",
        "2002::/16",
        "fd00:ec2::/48",
    ]) {
        assert!(is_forbidden_range(&range), "{range}");
    }
    for range in nets(&[
        "93.0.0.0/8",
        "168.63.0.0/16",
        "fd00::/8",
        "2000::/3",
        "::1/128",
        "2606:4700::/32",
    ]) {
        assert!(!is_forbidden_range(&range), "{range}");
    }
    // What is translated is judged by what it is translated to.
    assert!(!is_forbidden_range(&"64:ff9b::/96".parse().unwrap()));
    assert!(covers_forbidden(&"100.64.0.0/10".parse().unwrap()).is_some());
    assert!(covers_forbidden(&"fd00::/8".parse().unwrap()).is_some());
    assert!(covers_forbidden(&"fd12:3456:789a::/48".parse().unwrap()).is_none());
}
