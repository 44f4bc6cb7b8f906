//! The rows of the attack list that are about names, authorities and ports.

use super::*;

fn host(text: &str) -> Result<String, HostError> {
    Host::parse(text).map(|host| host.to_string())
}

fn authority(text: &str) -> Result<String, HostError> {
    parse_authority(text).map(|authority| authority.to_string())
}

fn refused(texts: &[&str]) {
    for text in texts {
        assert_eq!(host(text), Err(HostError::Host), "{text:?}");
    }
}

#[test]
fn row_01_a_name_is_lower_cased() {
    assert_eq!(host("ALLOWED.Test").unwrap(), "allowed.test");
}

#[test]
fn row_02_one_final_dot_is_dropped() {
    assert_eq!(host("allowed.test.").unwrap(), "allowed.test");
    assert_eq!(authority("allowed.test.:443").unwrap(), "allowed.test:443");
}

#[test]
fn row_03_two_final_dots_are_no_name() {
    refused(&["allowed.test..", ".", ".."]);
}

#[test]
fn row_08_empty_and_overlong_parts_are_no_name() {
    refused(&[".wild.test", "a..b", ""]);
    let label = "a".repeat(63);
    assert!(Host::parse(&label).is_ok());
    refused(&[&"a".repeat(64), &format!("{label}a.test")]);
    let longest = [label.as_str(); 4].join(".")[..253].to_owned();
    assert!(Host::parse(&longest).is_ok());
    assert!(Host::parse(&format!("{longest}.")).is_ok());
    refused(&[&format!("{longest}a")]);
}

#[test]
fn row_09_and_10_user_names_are_no_host() {
    refused(&["allowed@evil", "evil@allowed"]);
    assert!(authority("allowed@evil:443").is_err());
    assert!(authority("user:443@allowed:443").is_err());
}

#[test]
fn row_11_percent_is_no_host() {
    refused(&["allowed%00.test", "allowed%2etest", "%61llowed.test", "%"]);
}

#[test]
fn row_12_control_bytes_and_spaces_are_no_host() {
    for byte in (0..=b' ').chain([0x7f]) {
        for at in 0..=12 {
            let mut bytes = b"allowed.test".to_vec();
            bytes.insert(at, byte);
            assert!(Host::parse_bytes(&bytes).is_err(), "{byte} at {at}");
        }
    }
    assert!(Host::parse_bytes(b"allowed.test\0.evil").is_err());
    assert!(Host::parse_bytes(&[0xff, b'a']).is_err());
}

#[test]
fn row_13_what_ends_a_host_in_a_url_is_no_host() {
    refused(&[
        "evil#.allowed",
        "evil/.allowed",
        "evil?.allowed",
        "evil\\.allowed",
        "evil;x",
    ]);
}

#[test]
fn row_15_two_ports_are_no_authority() {
    for text in [
        "evil:443.allowed:443",
        "evil:443:allowed:443",
        "a:1:2",
        "::1:443",
        "a::1",
    ] {
        assert!(parse_authority(text).is_err(), "{text}");
    }
}

#[test]
fn row_17_unicode_is_never_mapped() {
    refused(&[
        "ａllowed.test",
        "allowed。test",
        "allowed．test",
        "bücher.test",
        "\u{17f}.test",
        "\u{212a}.test",
    ]);
}

#[test]
fn row_18_an_a_label_is_just_another_name() {
    assert_eq!(host("XN--Llowed-4wf.test").unwrap(), "xn--llowed-4wf.test");
}

#[test]
fn row_19_an_underscore_is_in_a_name_and_in_no_address() {
    assert_eq!(host("_dmarc.a_b.test").unwrap(), "_dmarc.a_b.test");
    assert!(matches!(Host::parse("1_0.0.0.1_"), Ok(Host::Name(_))));
}

#[test]
fn row_20_a_single_label_is_a_name() {
    assert_eq!(host("metadata").unwrap(), "metadata");
    assert!(Name::parse("metadata").unwrap().is_single());
}

#[test]
fn hyphens_stand_inside_labels_only() {
    refused(&["-a.test", "a-.test", "a.-", "-"]);
    assert!(Host::parse("r3---sn-x.test").is_ok());
}

#[test]
fn row_24_what_is_no_port_is_no_authority() {
    for text in [
        "a.test:0",
        "a.test:",
        "a.test:443abc",
        "a.test:+443",
        "a.test: 443",
        "a.test:-1",
        "a.test:443 ",
        "a.test:00443",
        "a.test:0x1bb",
        "a.test:４４３",
        "[::1]:",
        "[::1]:0",
    ] {
        assert_eq!(authority(text), Err(HostError::Port), "{text:?}");
    }
    assert_eq!(parse_authority("a.test").unwrap().port, None);
}

#[test]
fn row_25_a_port_beyond_65535_is_none() {
    for text in [
        "a:65979",
        "a:65536",
        "a:99999",
        "a:100000",
        "a:4294967739",
        "a:18446744073709552059",
    ] {
        assert_eq!(authority(text), Err(HostError::Port), "{text}");
    }
    assert_eq!(parse_authority("a:65535").unwrap().port, Some(65535));
}

#[test]
fn row_26_a_dotted_literal_is_an_address() {
    let parsed = Host::parse("93.184.216.34").unwrap();
    assert_eq!(parsed, Host::Address("93.184.216.34".parse().unwrap()));
    assert_eq!(authority("93.184.216.34:80").unwrap(), "93.184.216.34:80");
}

#[test]
fn row_27_a_decimal_address_is_neither_name_nor_address() {
    refused(&[
        "2852039166",
        "2852039166.",
        "169.16689662",
        "1.2.3",
        "1.2.3.4.5",
        "1",
        "256.1.1.1",
    ]);
    refused(&["a.test.1", "1.2.3.4.", "a.0", "10.0.0.0001"]);
}

#[test]
fn row_28_a_hexadecimal_address_is_neither_name_nor_address() {
    refused(&[
        "0xa9fea9fe",
        "0XA9FEA9FE",
        "0xa9.0xfe.0xa9.0xfe",
        "a.0x",
        "0x7f.1",
        "0x",
        "a.0xfg",
    ]);
}

#[test]
fn row_29_an_octal_address_is_neither_name_nor_address() {
    refused(&[
        "0251.0376.0251.0376",
        "0177.0.0.1",
        "127.0.0.01",
        "00.0.0.0",
    ]);
}

#[test]
fn row_31_and_32_ipv4_inside_ipv6_is_unwrapped() {
    for text in [
        "[::ffff:a9fe:a9fe]",
        "[::ffff:169.254.169.254]",
        "[::a9fe:a9fe]",
        "[::169.254.169.254]",
    ] {
        assert_eq!(host(text).unwrap(), "169.254.169.254", "{text}");
    }
    assert_eq!(host("[::1]").unwrap(), "[::1]");
    assert_eq!(host("[::]").unwrap(), "[::]");
}

#[test]
fn row_38_zone_ids_are_no_host() {
    refused(&[
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "[::ffff:1.2.3.4%x.allowed]",
    ]);
}

#[test]
fn only_one_address_stands_in_brackets() {
    refused(&[
        "[1.2.3.4]",
        "[a.test]",
        "[]",
        "[::1",
        "::1]",
        "[[::1]]",
        "[::1]x",
        "[::1].test",
        "::1",
    ]);
    assert!(authority("[::1]x:443").is_err());
    assert_eq!(authority("[2001:DB8::1]:443").unwrap(), "[2001:db8::1]:443");
}

#[test]
fn what_is_shown_is_read_as_the_same() {
    let mut random = crate::policy::testing::Random::new(7);
    let alphabet = b"aZ09-_.:[]%x1f";
    let mut read = 0;
    for _ in 0..200_000 {
        let length = random.below(14);
        let bytes: Vec<u8> = (0..length).map(|_| *random.pick(alphabet)).collect();
        if let Ok(authority) = parse_authority_bytes(&bytes) {
            read += 1;
            assert_eq!(parse_authority(&authority.to_string()), Ok(authority));
        }
    }
    assert!(read > 1_000, "only {read} were authorities");
}

#[test]
fn patterns_match_as_allowed_hosts_do() {
    assert!(is_host_allowed("API.x.test.", &["*.x.test"]));
    assert!(!is_host_allowed("x.test", &["*.x.test"]));
    assert!(is_host_allowed("x.test", &[".x.test"]));
    assert!(is_host_allowed("93.184.216.34", &["93.184.216.0/24"]));
    assert!(!is_host_allowed("169.254.169.254", &["169.254.169.254"]));
    assert!(!is_host_allowed("10.0.0.1", &["10.0.0.1"]));
    assert!(!is_host_allowed(
        "a.com",
        &["*.com", "*", "a.com:443", "https://a.com"]
    ));
    assert!(!is_host_allowed("localhost", &["localhost"]));
    assert!(!is_host_allowed("x.test:443", &["x.test"]));
}
