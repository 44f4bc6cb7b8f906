//! What stays behind: no task, no unclaimed message on the lane.

use namzu_client::{ExecRequest, ExitStatus};

use crate::real::{Carrier, Real};

/// Waits for `settled`: what ends in the background ends a little later.
async fn settle(settled: impl Fn() -> bool) {
    let settling = async {
        while !settled() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), settling)
        .await
        .expect("something stays behind");
}

#[tokio::test]
async fn a_thousand_commands_leave_no_task() {
    let sandbox = Real::sandbox(Carrier::Lane).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    for n in 0..1000 {
        let request = ExecRequest::new(["/bin/sh", "-c", "echo x"]);
        if n % 10 == 0 {
            // Abandoned at some point of its life.
            let exec = sandbox.exec(request);
            let _ = tokio::time::timeout(std::time::Duration::from_micros(n), exec).await;
        } else {
            let output = sandbox.exec(request).await.unwrap();
            assert_eq!(output.status, ExitStatus::Code(0));
            assert_eq!(output.stdout.to_vec(), b"x\n");
        }
    }
    settle(|| tasks() <= before).await;
}

#[tokio::test]
async fn commands_that_do_not_start_leave_the_lane_usable() {
    let sandbox = Real::sandbox(Carrier::Lane).await;
    for _ in 0..200 {
        let err = sandbox
            .exec(ExecRequest::new(["/no/such/program"]))
            .await
            .unwrap_err();
        assert_eq!(err.code(), namzu_core::ErrorCode::CommandNotStarted);
    }
    let output = sandbox.exec(ExecRequest::new(["true"])).await.unwrap();
    assert_eq!(output.status, ExitStatus::Code(0));
}
