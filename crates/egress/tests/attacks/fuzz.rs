//! Mutated requests over real sockets: a server that takes whatever it is sent must see no more requests
//! than a strict reader does, and none for another host.

mod strict;

use std::net::Shutdown;
use std::time::Duration;

use namzu_types::EgressPolicy;

use crate::bench::{List, Place};
use crate::doors::{A, Door, Outcome, query};
use crate::framing::open;

/// Requests for each way.
const ROUNDS: usize = 2000;

const CORPUS: &[&str] = &[
    "GET {T}/ HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "GET {T}/a?b=c HTTP/1.1\r\nHost: {H}\r\nAccept: */*\r\nUser-Agent: x\r\n\r\n",
    "HEAD {T}/ HTTP/1.1\r\nHost: {H}\r\nConnection: close\r\n\r\n",
    "POST {T}/ HTTP/1.1\r\nHost: {H}\r\nContent-Length: 5\r\n\r\nhello",
    "POST {T}/ HTTP/1.1\r\nHost: {H}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "PUT {T}/ HTTP/1.1\r\nHost: {H}\r\nTransfer-Encoding: chunked\r\nTrailer: a\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n",
    "GET {T}/1 HTTP/1.1\r\nHost: {H}\r\n\r\nGET {T}/2 HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "POST {T}/1 HTTP/1.1\r\nHost: {H}\r\nContent-Length: 40\r\n\r\nGET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\nGET {T}/3 HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "POST {T}/ HTTP/1.1\r\nHost: {H}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET {T}/2 HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "GET {T}/ HTTP/1.0\r\nHost: {H}\r\nConnection: keep-alive\r\n\r\n",
    "GET {T}/ HTTP/1.1\r\nHost: {H}\r\nConnection: keep-alive, x-a\r\nX-A: b\r\nProxy-Authorization: Basic eDp5\r\n\r\n",
    "POST {T}/ HTTP/1.1\r\nHost: {H}\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
];

const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"\x0b",
    b"\xff",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"content-length:6\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Host: evil.test\r\n",
    b"http://evil.test/",
    b"@evil.test",
    b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    b"GET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    b" HTTP/1.1",
    b"HTTP/1.0",
    b"Connection: close\r\n",
    b"Upgrade: websocket\r\nConnection: upgrade\r\n",
    b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n",
    b"+",
    b"-",
    b"0x",
    b"%0d%0a",
    b"\xc4\x8a",
];

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % sides.max(1)
    }
}

pub(crate) fn list(list: &mut List) {
    for (door, seed) in [
        (Door::Absolute, 0x9e37_79b9_7f4a_7c15),
        (Door::Named, 0xbf58_476d_1ce4_e5b9),
        (Door::Intercepted, 0x94d0_49bb_1331_11eb),
    ] {
        list.add(
            format!(
                "fuzz::no_mutated_request_is_read_in_two_ways::{}",
                door.name()
            ),
            move |bench| {
                let place = Place::with(bench, |_| unhurried());
                let mut dice = Dice(seed);
                let (mut before, mut late) = (0, 0);
                for round in 0..ROUNDS {
                    let (target, host) = match door {
                        Door::Absolute => ("http://allowed.test", "allowed.test"),
                        Door::Named => ("", "allowed.test"),
                        _ => ("", "inner.test"),
                    };
                    let base = CORPUS[dice.roll(CORPUS.len())];
                    let base = base.replace("{T}", target).replace("{H}", host);
                    let bytes = mutated(base.into_bytes(), &mut dice);
                    let allowed = strict::requests(&bytes, host, door == Door::Absolute);
                    let (mut wire, _, _) = open(&place, door);
                    wire.send(&bytes);
                    wire.finish();
                    let (answer, _) = wire.rest(Duration::from_secs(30));
                    let after = seen(&place);
                    assert!(
                        after - before <= allowed + late,
                        "round {round}: {} requests of {allowed} got out: {:?}\nanswer: {}",
                        after - before,
                        String::from_utf8_lossy(&bytes),
                        String::from_utf8_lossy(&answer),
                    );
                    // A server may read what the boundary sent after the boundary has said goodbye.
                    late = (allowed + late).saturating_sub(after - before).min(1);
                    before = after;
                }
                assert!(
                    before > ROUNDS / 20,
                    "only {before} got out: the test tests nothing"
                );
                only_allowed(&place);
                let outcome = place.attempt(Door::Absolute, "allowed.test", "80");
                assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
            },
        );
    }
    list.add("fuzz::no_mutated_question_stops_the_names", |bench| {
        let place = Place::with(bench, |_| unhurried());
        let mut dice = Dice(0x2545_f491_4f6c_dd1d);
        if place.bench.forwarded {
            for _ in 0..ROUNDS / 20 {
                let bytes = mutated(query(&[b"allowed", b"test"], A), &mut dice);
                // An answer, or the end.
                let _ = place.ask_tcp(&bytes);
            }
            assert!(place.resolve("allowed.test").is_ok());
            return place.silent();
        }
        let socket = place.room.udp(("127.0.0.1", 53)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut answer = [0; 4096];
        for _ in 0..ROUNDS {
            let question = query(&[b"allowed", b"test"], A);
            let bytes = mutated(question, &mut dice);
            // What does not fit into the queue is lost, as datagrams are.
            let _ = socket.send(&bytes);
            while let Ok(read) = socket.recv(&mut answer) {
                assert!((12..=1232).contains(&read), "an answer of {read} bytes");
            }
        }
        // Some datagrams are lost while so many are answered; programs ask again, too.
        assert!((0..10).any(|_| place.resolve("allowed.test").is_ok()));
        place.silent();
    });
}

/// The usual policy for somebody in a hurry.
fn unhurried() -> EgressPolicy {
    let mut policy = crate::bench::usual();
    if let EgressPolicy::Static { limits, .. } = &mut policy {
        limits.flows_per_second = Some(100_000);
        limits.flows = Some(10_000);
        limits.names_per_minute = Some(100_000);
    }
    policy
}

fn mutated(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    for _ in 0..dice.roll(4) {
        let at = dice.roll(bytes.len() + 1);
        match dice.roll(6) {
            0 => {
                let token = TOKENS[dice.roll(TOKENS.len())];
                bytes.splice(at..at, token.iter().copied());
            }
            1 => {
                let token = TOKENS[dice.roll(TOKENS.len())];
                let end = (at + dice.roll(4)).min(bytes.len());
                bytes.splice(at..end, token.iter().copied());
            }
            2 => {
                let end = (at + 1 + dice.roll(8)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            3 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.roll(8);
                }
            }
            4 => {
                let end = (at + dice.roll(60)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = dice.roll(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            // A line goes to another place.
            _ => {
                let token = b"\r\n";
                let end = bytes[at..].windows(2).position(|two| two == token);
                if let Some(end) = end {
                    let line: Vec<u8> = bytes.drain(at..at + end + 2).collect();
                    let to = dice.roll(bytes.len() + 1);
                    bytes.splice(to..to, line);
                }
            }
        }
    }
    bytes
}

/// How many requests servers have read.
fn seen(place: &Place) -> usize {
    let all = place.bench.network.reached(place.block);
    all.iter().map(|seen| seen.requests).sum()
}

/// Everything went where it may, and says so.
fn only_allowed(place: &Place) {
    let (allowed, inner) = (place.block.v4(1), place.block.v4(2));
    for seen in place.reached() {
        assert!(seen.to.ip() == allowed || seen.to.ip() == inner, "{seen:?}");
    }
    let asked = place.zone.asked();
    assert!(
        asked
            .iter()
            .all(|name| name == "allowed.test" || name == "inner.test"),
        "{asked:?}"
    );
    // Nothing is left half open.
    let _ = place.proxy().socket().shutdown(Shutdown::Both);
}
