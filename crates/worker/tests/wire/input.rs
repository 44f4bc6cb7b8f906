//! Input: pipes, streams of it, terminals.

use bytes::Bytes;
use http_body_util::BodyExt;
use namzu_protocol::connect::{Code, ErrorBody};
use namzu_protocol::process::process_input::Input;
use namzu_protocol::process::stream_input_request::Event;
use namzu_protocol::process::{
    self as wire, CloseStdinRequest, CloseStdinResponse, ProcessInput, Pty, PtySize,
    SendInputRequest, SendInputResponse, StartRequest, StreamInputData, StreamInputRequest,
    StreamInputResponse, StreamInputStart, UpdateRequest, UpdateResponse,
};

use crate::support::{Client, by_pid, full, private, shell, start};

pub(crate) async fn send(
    client: &Client,
    pid: u32,
    bytes: &[u8],
) -> Result<SendInputResponse, ErrorBody> {
    input(client, pid, Input::Stdin(Bytes::copy_from_slice(bytes))).await
}

async fn input(client: &Client, pid: u32, input: Input) -> Result<SendInputResponse, ErrorBody> {
    let input = Some(ProcessInput { input: Some(input) });
    client
        .unary(
            wire::SEND_INPUT,
            &SendInputRequest {
                process: by_pid(pid),
                input,
            },
        )
        .await
}

async fn close(client: &Client, pid: u32) -> Result<CloseStdinResponse, ErrorBody> {
    client
        .unary(
            wire::CLOSE_STDIN,
            &CloseStdinRequest {
                process: by_pid(pid),
            },
        )
        .await
}

fn with_input(request: StartRequest) -> StartRequest {
    StartRequest {
        stdin: None,
        ..request
    }
}

fn on_terminal(request: StartRequest) -> StartRequest {
    StartRequest {
        pty: Some(Pty {
            size: Some(PtySize { cols: 90, rows: 30 }),
        }),
        ..request
    }
}

#[tokio::test]
async fn input_goes_in_and_its_end_ends_the_command() {
    let worker = private(&[]).await;
    let mut replies = worker.client.start(&with_input(start("cat", &[]))).await;
    let pid = replies.pid().await;
    let big = vec![b'x'; 1 << 20];
    let (sent, outcome) = tokio::join!(
        async {
            send(&worker.client, pid, b"a\0\xff").await.unwrap();
            send(&worker.client, pid, &big).await.unwrap();
            close(&worker.client, pid).await.unwrap();
            close(&worker.client, pid).await
        },
        replies.outcome()
    );
    sent.expect("closing twice is harmless");
    assert_eq!((outcome.stdout.len(), outcome.code()), ((1 << 20) + 3, 0));
    assert!(outcome.stdout.starts_with(b"a\0\xffxxx"));
}

#[tokio::test]
async fn input_that_nobody_can_read_is_refused() {
    let worker = private(&[]).await;
    let mut replies = worker.client.start(&shell("sleep 1000")).await;
    let pid = replies.pid().await;
    let error = send(&worker.client, pid, b"x").await.unwrap_err();
    assert_eq!(error.code, Code::Internal);
    assert!(
        error
            .message
            .starts_with("error writing to stdin: stdin not enabled or closed"),
        "{error}"
    );

    let mut replies = worker
        .client
        .start(&with_input(shell("exec <&-; echo closed; sleep 1000")))
        .await;
    let pid = replies.pid().await;
    replies.until("closed").await;
    let error = send(&worker.client, pid, b"x").await.unwrap_err();
    assert_eq!(error.code, Code::Internal);

    let error = send(&worker.client, u32::MAX, b"x").await.unwrap_err();
    assert_eq!(error.code, Code::NotFound);
}

#[tokio::test]
async fn a_stream_of_input_is_written_in_order() {
    let worker = private(&[]).await;
    let client = &worker.client;
    let mut replies = client.start(&with_input(shell("cat"))).await;
    let pid = replies.pid().await;
    let message = |event| client.envelope(&StreamInputRequest { event: Some(event) });
    let data = |text: &'static str| {
        let input = Some(ProcessInput {
            input: Some(Input::Stdin(text.into())),
        });
        message(Event::Data(StreamInputData { input }))
    };
    let start = message(Event::Start(StreamInputStart {
        process: by_pid(pid),
    }));
    let body = [
        start,
        data("one "),
        message(Event::Keepalive(wire::KeepAlive {})),
        data("two"),
    ]
    .concat();
    let mut answer = client
        .stream::<StreamInputResponse>(wire::STREAM_INPUT, full(body))
        .await;
    assert!(answer.next().await.is_some());
    assert!(answer.next().await.is_none());
    assert_eq!(answer.end.unwrap().error, None);
    close(client, pid).await.unwrap();
    assert_eq!(replies.outcome().await.text(), "one two");

    let answer = client
        .stream::<StreamInputResponse>(wire::STREAM_INPUT, full(data("x")))
        .await;
    assert_eq!(
        answer.failure().await.code,
        Code::InvalidArgument,
        "no start"
    );
}

#[tokio::test]
async fn a_terminal_has_a_size_a_type_and_takes_keys() {
    let worker = private(&[]).await;
    let client = &worker.client;
    let line = "stty size; echo $TERM; tty; trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.01; done";
    let mut replies = client.start(&on_terminal(shell(line))).await;
    let pid = replies.pid().await;
    let seen = replies.until("ready").await;
    assert!(
        seen.starts_with("30 90\r\nxterm-256color\r\n/dev/pts/"),
        "{seen}"
    );

    let error = send(client, pid, b"x").await.unwrap_err();
    assert_eq!(error.code, Code::Internal, "a terminal takes no pipe input");
    assert_eq!(close(client, pid).await.unwrap_err().code, Code::Internal);

    let size = Some(PtySize {
        cols: 100,
        rows: 40,
    });
    let resize = UpdateRequest {
        process: by_pid(pid),
        pty: Some(Pty { size }),
    };
    let _: UpdateResponse = client.unary(wire::UPDATE, &resize).await.unwrap();
    let outcome = replies.outcome().await;
    assert_eq!(
        (
            String::from_utf8(outcome.pty.clone()).unwrap().trim_end(),
            outcome.code()
        ),
        ("40 100", 7)
    );
}

#[tokio::test]
async fn ctrl_c_on_a_terminal_interrupts() {
    let worker = private(&[]).await;
    let mut replies = worker
        .client
        .start(&on_terminal(shell(
            "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done",
        )))
        .await;
    let pid = replies.pid().await;
    replies.until("ready").await;
    input(&worker.client, pid, Input::Pty(Bytes::from_static(b"\x03")))
        .await
        .unwrap();
    assert_eq!(replies.outcome().await.code(), 9);
}

#[tokio::test]
async fn a_request_cut_off_in_a_message_is_refused() {
    let worker = private(&[]).await;
    let client = &worker.client;
    let cut = client.envelope(&shell("true")).slice(..9);
    let answer = client
        .stream::<wire::StartResponse>(wire::START, full(cut))
        .await;
    assert_eq!(answer.failure().await.code, Code::InvalidArgument);
    let huge = Bytes::from_static(b"\0\xff\xff\xff\xff");
    let answer = client
        .stream::<wire::StartResponse>(wire::START, full(huge))
        .await;
    assert_eq!(answer.failure().await.code, Code::InvalidArgument);
    let request = client.request(http::Method::POST, wire::START, "text/plain", full(""));
    let response = client.send(request).await;
    assert_eq!(response.status(), http::StatusCode::UNSUPPORTED_MEDIA_TYPE);
    response.into_body().collect().await.unwrap();
}
