//! 93: what is no request of this proxy's.

use std::time::Duration;

use super::ask;
use crate::bench::{List, Place};
use crate::doors::Outcome;
use crate::wire::End;

pub(super) fn list(list: &mut List) {
    list.add(
        "093_https_as_a_target_is_refused_or_in_tls::absolute",
        |bench| {
            let place = Place::open(bench);
            let outcome = ask(
                &place,
                "GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
            );
            if outcome.is_refused() {
                return place.silent();
            }
            let seen = place.one();
            assert_eq!(seen.to.port(), 443);
            assert_eq!(seen.server_name.as_deref(), Some("allowed.test"));
        },
    );
    for (name, target) in [
        ("093_ftp", "ftp://allowed.test/"),
        ("093_file", "file:///etc/passwd"),
        ("093_gopher", "gopher://allowed.test/"),
        ("093_a_socket", "unix:/var/run/docker.sock"),
        (
            "093_a_scheme_with_credentials",
            "http://user:secret@allowed.test/",
        ),
        ("093_no_scheme", "://allowed.test/"),
        ("093_a_script", "javascript:alert(1)"),
        ("093_a_websocket", "ws://allowed.test/"),
        ("093_a_backslash", "http:\\\\allowed.test\\"),
        ("093_one_slash", "http:/allowed.test/"),
        ("093_three_slashes", "http:///allowed.test/"),
    ] {
        list.add(format!("{name}::absolute"), move |bench| {
            let place = Place::open(bench);
            let outcome = ask(
                &place,
                &format!("GET {target} HTTP/1.1\r\nHost: allowed.test\r\n\r\n"),
            );
            let Outcome::Http(reply) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(matches!(reply.status, 400 | 403 | 501), "{}", reply.head);
            place.silent();
        });
    }
    list.add("093_a_url_with_connect::connect", |bench| {
        let place = Place::open(bench);
        for target in [
            "http://allowed.test:443",
            "http://allowed.test:443/",
            "/",
            "*",
            "allowed.test:443/",
        ] {
            let mut wire = place.proxy();
            wire.send(format!(
                "CONNECT {target} HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
            ));
            assert_eq!(wire.reply().unwrap().status, 400, "{target}");
        }
        place.silent();
    });
    list.add("093_other_commands::socks", |bench| {
        let place = Place::open(bench);
        for command in [0, 2, 3, 0xf0, 0xff] {
            let mut wire = place.proxy();
            wire.send([5, 1, 0]);
            assert_eq!(wire.exactly(2).unwrap(), [5, 0]);
            wire.send([&[5, command, 0, 3, 12][..], b"allowed.test", &[1, 187]].concat());
            let reply = wire.exactly(2).unwrap();
            assert_eq!(reply, [5, 7], "{command}");
            let _ = wire.rest(Duration::from_secs(30));
        }
        place.silent();
    });
    list.add("093_malformed_requests::socks", |bench| {
        let place = Place::open(bench);
        for bytes in [
            &[4, 1, 1, 187, 45, 0, 0, 1, 0][..],
            &[5, 0],
            &[5, 1, 2],
            &[5, 1, 0, 4, 1, 0, 3, 4],
            &[5, 1, 0, 5, 1, 0, 9, 4, 1, 2, 3, 4],
            &[5, 1, 0, 5, 1, 1, 3, 1, b'a', 0, 80],
            &[5, 1, 0, 5, 1, 0, 3, 0, 1, 187],
        ] {
            let mut wire = place.proxy();
            wire.send(bytes);
            wire.finish();
            let (answer, end) = wire.rest(Duration::from_secs(30));
            assert_ne!(end, End::Open, "{bytes:?}");
            assert!(answer.get(2..4) != Some(&[5, 0]), "{bytes:?}: {answer:?}");
        }
        place.silent();
    });
}
