//! Bytes between two sockets.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::place::Place;
use crate::place::testing::{Table, ask, place, policy};

mod idle;

/// A flow between a program inside and a server outside.
struct Scene {
    place: Arc<Place>,
    program: TcpStream,
    server: TcpStream,
    carried: JoinHandle<()>,
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(
        TcpStream::connect(listener.local_addr().unwrap()),
        listener.accept()
    );
    (near.unwrap(), far.unwrap().0)
}

async fn flow() -> Flow {
    flow_with("").await
}

async fn flow_with(limits: &str) -> Flow {
    let rules = format!(
        r#"{{"kind": "static", "rules": [{{"host": "a.example.com", "ports": [22], "scheme": "tcp"}}]{limits}}}"#
    );
    let place = place(&policy(&rules), Table::loopback(&[]));
    match place.admit(ask("a.example.com:22")).await {
        Ok(flow) => flow,
        Err(denial) => panic!("{denial:?}"),
    }
}

async fn carried(flow: Flow, early: &'static [u8]) -> Scene {
    let (program, inside) = pair().await;
    let (outside, server) = pair().await;
    let place = Arc::clone(&flow.place);
    let task = carry(flow, Inside::Tcp(inside), outside, early);
    Scene {
        place,
        program,
        server,
        carried: tokio::spawn(task),
    }
}

async fn scene() -> Scene {
    carried(flow().await, b"").await
}

async fn expect(stream: &mut TcpStream, want: &[u8]) {
    let mut got = vec![0; want.len()];
    stream.read_exact(&mut got).await.unwrap();
    assert_eq!(got, want);
}

async fn assert_reset(stream: &mut TcpStream) {
    let why = stream.read_u8().await.unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset);
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect()
}

#[tokio::test]
async fn bytes_go_both_ways_behind_those_that_were_read_already() {
    let mut scene = carried(flow().await, b"early ").await;
    scene.program.write_all(b"up").await.unwrap();
    expect(&mut scene.server, b"early up").await;
    scene.server.write_all(b"down").await.unwrap();
    expect(&mut scene.program, b"down").await;
}

#[tokio::test]
async fn row_118_the_end_of_one_way_leaves_the_other() {
    let mut scene = scene().await;
    scene.program.write_all(b"question").await.unwrap();
    scene.program.shutdown().await.unwrap();
    let mut question = Vec::new();
    scene.server.read_to_end(&mut question).await.unwrap();
    assert_eq!(question, b"question");
    scene.server.write_all(b"answer").await.unwrap();
    scene.server.shutdown().await.unwrap();
    let mut answer = Vec::new();
    scene.program.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
    scene.carried.await.unwrap();
}

#[tokio::test]
async fn row_118_a_side_that_breaks_off_after_its_end_ends_the_flow() {
    let mut scene = scene().await;
    scene.program.shutdown().await.unwrap();
    assert_eq!(scene.server.read(&mut [0]).await.unwrap(), 0);
    scene.program.set_zero_linger().unwrap();
    drop(scene.program);
    scene.carried.await.unwrap();
}

#[tokio::test]
async fn row_119_a_reset_is_passed_on_as_one_and_leaves_nothing() {
    for inside in [true, false] {
        let scene = scene().await;
        let (breaks, mut other) = if inside {
            (scene.program, scene.server)
        } else {
            (scene.server, scene.program)
        };
        breaks.set_zero_linger().unwrap();
        drop(breaks);
        assert_reset(&mut other).await;
        scene.carried.await.unwrap();
    }
}

#[tokio::test]
async fn row_119_a_reset_while_a_pipe_is_full_frees_it() {
    let mut scene = scene().await;
    let task = async {
        // Until nothing more fits: the server does not read.
        let piece = bytes(64 * 1024);
        while scene.program.write_all(&piece).await.is_ok() {}
    };
    tokio::select! {
        () = task => {}
        () = async {
            // Reads a little, so that the pipe is known to be in use, and breaks off.
            let mut some = vec![0; 1024 * 1024];
            scene.server.read_exact(&mut some).await.unwrap();
            scene.server.set_zero_linger().unwrap();
        } => {}
    }
    drop(scene.server);
    scene.carried.await.unwrap();
    assert_reset(&mut scene.program).await;
}

#[tokio::test]
async fn what_is_idle_holds_neither_pipe_nor_buffer() {
    let mut scene = scene().await;
    scene.program.write_all(b"up").await.unwrap();
    expect(&mut scene.server, b"up").await;
    scene.server.write_all(b"down").await.unwrap();
    expect(&mut scene.program, b"down").await;
    scene.program.shutdown().await.unwrap();
    scene.server.shutdown().await.unwrap();
    scene.carried.await.unwrap();
    let (pipes, buffers) = scene.place.outside.stock.idle();
    assert!((1..=2).contains(&pipes), "{pipes}");
    assert_eq!(buffers, 0);
}

#[tokio::test]
async fn a_cut_resets_both_sides() {
    let mut scene = scene().await;
    scene.program.write_all(b"up").await.unwrap();
    expect(&mut scene.server, b"up").await;
    scene.place.close();
    assert_reset(&mut scene.program).await;
    assert_reset(&mut scene.server).await;
    scene.carried.await.unwrap();
}

#[tokio::test]
async fn a_megabyte_arrives_whole_and_in_order() {
    let mut scene = scene().await;
    let sent = bytes(4 * 1024 * 1024);
    let mut got = Vec::new();
    let sending = async {
        scene.program.write_all(&sent).await.unwrap();
        scene.program.shutdown().await.unwrap();
    };
    let ((), received) = tokio::join!(sending, scene.server.read_to_end(&mut got));
    received.unwrap();
    assert!(got == sent);
}

#[tokio::test]
async fn bytes_over_the_quota_do_not_go_out() {
    let flow = flow_with(r#", "limits": {"bytesUp": 10}"#).await;
    let mut scene = carried(flow, b"").await;
    scene.program.write_all(b"0123456789").await.unwrap();
    expect(&mut scene.server, b"0123456789").await;
    scene.program.write_all(b"more").await.unwrap();
    assert_reset(&mut scene.server).await;
    assert_reset(&mut scene.program).await;
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_is_quiet_for_hours_ends_and_not_before_two() {
    let begun = tokio::time::Instant::now();
    let scene = scene().await;
    scene.carried.await.unwrap();
    let hours = begun.elapsed().as_secs_f64() / 3600.0;
    assert!((2.0..2.5).contains(&hours), "{hours}");
}

#[tokio::test]
async fn where_the_kernel_does_not_splice_bytes_are_copied() {
    let flow = flow().await;
    let (mut program, inside) = pair().await;
    let (outside, mut server) = pair().await;
    let meter = Meter {
        flow: &flow,
        stock: &flow.place.outside.stock,
        moved: AtomicBool::new(false),
    };
    program.write_all(b"up").await.unwrap();
    let ended = splice::tests::copy_burst(&meter, &inside, &outside).await;
    assert_eq!(ended, Ok(false));
    expect(&mut server, b"up").await;
    assert_eq!(flow.place.outside.stock.idle(), (0, 1));
    program.shutdown().await.unwrap();
    assert_eq!(
        splice::tests::copy_burst(&meter, &inside, &outside).await,
        Ok(true)
    );
}

#[tokio::test]
async fn a_channel_is_carried_through_buffers_that_it_does_not_keep() {
    let flow = flow().await;
    let place = Arc::clone(&flow.place);
    let (mut program, inside) = duplex(1024);
    let (outside, mut server) = pair().await;
    let carried = tokio::spawn(carry(
        flow,
        Inside::Channel(Box::new(inside)),
        outside,
        b"early",
    ));
    let sent = bytes(300_000);
    let (mut read, mut write) = tokio::io::split(&mut program);
    let up = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let down = async {
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        assert!(got[..5] == *b"early" && got[5..] == sent);
        server.write_all(&sent).await.unwrap();
        server.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let ((), (), read) = tokio::join!(up, down, read.read_to_end(&mut back));
    read.unwrap();
    assert!(back == sent);
    carried.await.unwrap();
    let (pipes, buffers) = place.outside.stock.idle();
    assert!(pipes == 0 && buffers >= 1);
}

#[tokio::test]
async fn an_idle_flow_is_small() {
    let flow = flow().await;
    let (_program, inside) = pair().await;
    let (outside, _server) = pair().await;
    let future = carry(flow, Inside::Tcp(inside), outside, bytes::BytesMut::new());
    let size = size_of_val(&future);
    assert!(size < 2048, "{size}");
}

#[tokio::test]
async fn a_sandbox_whose_peers_take_nothing_does_not_take_all_descriptors() {
    let flow = flow().await;
    let place = Arc::clone(&flow.place);
    let lent: Vec<_> = std::iter::from_fn(|| place.outside.stock.pipe(&place.lent))
        .take(1000)
        .collect();
    assert_eq!(lent.len(), 64);
    let other = stock::Lent::default();
    assert!(
        place.outside.stock.pipe(&other).is_some(),
        "another sandbox has its own"
    );
    // Its flows go on without.
    let mut scene = carried(flow, b"").await;
    scene.program.write_all(b"up").await.unwrap();
    expect(&mut scene.server, b"up").await;
    drop(lent);
    assert!(place.outside.stock.pipe(&place.lent).is_some());
}
