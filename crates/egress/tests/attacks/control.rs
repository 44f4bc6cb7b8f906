//! That the tests can fail: what attacks would reach is there, and what is allowed gets through.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use namzu_egress::EgressProxy;
use namzu_testkit::network::{Record, Zone};
use namzu_types::EgressPolicy;

use crate::bench::{List, Place, boundary};
use crate::doors::{Door, Outcome};
use crate::wire::Wire;

pub(crate) fn list(list: &mut List) {
    list.add("control::the_outside_is_on_every_address", |bench| {
        let block = bench.network.block();
        for (address, port) in [
            (IpAddr::V4(block.v4(1)), 80),
            (block.private(1).into(), 6379),
            (block.v6(1).into(), 22),
        ] {
            let to = SocketAddr::new(address, port);
            TcpStream::connect_timeout(&to, Duration::from_secs(30)).unwrap();
        }
        bench.network.settle().unwrap();
        let seen = bench.network.log().all(|seen| block.has(seen.to.ip()));
        assert_eq!(seen.len(), 3, "{seen:#?}");
    });
    list.add("control::forbidden_addresses_answer_too", |bench| {
        for (address, answers) in &bench.forbidden {
            assert!(answers, "{address}");
        }
    });
    for door in Door::ALL {
        list.add(
            format!("control::what_is_allowed_passes::{}", door.name()),
            |bench| {
                let place = Place::open(bench);
                let (host, port, last) = match door {
                    Door::Intercepted => ("inner.test", "443", 2),
                    Door::Absolute => ("allowed.test", "80", 1),
                    _ => ("allowed.test", "443", 1),
                };
                let outcome = place.attempt(*door, host, port);
                let Outcome::Passed(text) = outcome else {
                    panic!("{outcome:?}");
                };
                assert_eq!(text, format!("this is {}\n", place.block.v4(last)));
                assert_eq!(place.zone.asked(), [host]);
                assert_eq!(place.one().to.ip(), IpAddr::V4(place.block.v4(last)));
            },
        );
    }
    list.add("control::ssh_passes_by_name", |bench| {
        let place = Place::open(bench);
        for door in [Door::Connect, Door::Socks, Door::Named] {
            let outcome = place.attempt(door, "ssh.test", "22");
            assert!(
                matches!(outcome, Outcome::Passed(_)),
                "{door:?}: {outcome:?}"
            );
        }
    });
}

/// What has sockets of its own.
pub(crate) fn list_sockets(list: &mut List) {
    list.add("control::a_proxy_by_itself_decides_alike", |bench| {
        let block = bench.network.block();
        let zone = Zone::default();
        zone.host("allowed.test", block.v4(1));
        zone.otherwise(Record::Addresses(vec![block.v4(66).into()]));
        let proxy = EgressProxy::builder()
            .boundary(boundary(bench, &zone))
            .policy(EgressPolicy::hosts(["allowed.test"]));
        let proxy = bench.runtime.block_on(proxy.start()).unwrap();
        let ask = |request: &str| {
            let stream = TcpStream::connect(proxy.local_addr()).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            let mut wire = Wire::new(stream);
            wire.send(request);
            wire.reply().unwrap().status
        };
        for (target, status) in [
            ("http://allowed.test/", 200),
            ("http://evil.test/", 403),
            ("http://169.254.169.254/", 403),
            ("http://127.0.0.1/", 403),
            ("http://51.15.77.2/", 403),
            ("http://evil@allowed.test/", 400),
        ] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
            assert_eq!(ask(&request), status, "{target}");
        }
        assert_eq!(zone.asked(), ["allowed.test"]);
        bench.network.settle().unwrap();
        assert_eq!(bench.network.reached(block).len(), 1);
    });
}
