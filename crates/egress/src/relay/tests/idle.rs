//! Hours without a byte, in no time.

use super::*;

/// Lets time pass, and whoever waited for it notice.
async fn idle(minutes: u32) {
    tokio::time::pause();
    for _ in 0..minutes {
        tokio::time::advance(Duration::from_secs(60)).await;
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::resume();
}

#[tokio::test]
async fn a_stream_that_idles_for_almost_two_hours_goes_on_and_may_do_so_again() {
    let mut scene = scene().await;
    for _ in 0..3 {
        scene.program.write_all(b"are you there").await.unwrap();
        expect(&mut scene.server, b"are you there").await;
        scene.server.write_all(b"yes").await.unwrap();
        expect(&mut scene.program, b"yes").await;
        idle(119).await;
    }
    scene.server.write_all(b"still").await.unwrap();
    expect(&mut scene.program, b"still").await;
}
