//! What must work.

use namzu_types::SandboxSpec;

use crate::support::{run, sandbox, sh};

#[tokio::test]
async fn the_hosts_interpreters_run() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    assert_eq!(
        run(&sandbox, ["python3", "-c", "print(2**64)"]).await.ok(),
        "18446744073709551616\n"
    );
    assert_eq!(
        run(&sandbox, ["node", "-e", "console.log(6 * 7)"])
            .await
            .ok(),
        "42\n"
    );
    run(&sandbox, ["git", "--version"]).await.ok();
    sh(&sandbox, "git init -q . && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m x && git log --oneline")
        .await
        .ok();
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn what_programs_expect_of_a_system_is_there() {
    let sandbox = sandbox(SandboxSpec::default()).await;
    for script in [
        "echo x > /dev/null && head -c 8 /dev/urandom | wc -c",
        "bash -c 'cat <(echo substituted)'",
        "test -L /dev/fd && test -e /dev/tty -o -c /dev/tty",
        "getent passwd user && getent hosts localhost && getent services https",
        "python3 -c 'import multiprocessing as m; m.Semaphore(); m.Queue()'",
        "python3 -c 'import os; os.openpty()'",
        "python3 -c 'import ssl; assert ssl.create_default_context().cert_store_stats()[\"x509_ca\"]'",
        "mktemp && mktemp -d && touch ~/.bashrc && date && ls -la / > /dev/null",
        "bash -lc 'python3 --version'",
    ] {
        sh(&sandbox, script).await.ok();
    }
    sandbox.destroy().await.unwrap();
}
