//! Programs and libraries that speak HTTP, and what is built on it.

use crate::guest::Guest;

const HELLO: &str = "hello from the outside";

pub(crate) const GUESTS: &[Guest] = &[
    Guest {
        needs: &["curl"],
        laments: "403",
        ..Guest::new(
            "curl",
            "export CURL_CA_BUNDLE=$GUEST/ca.pem",
            "curl -fsS https://$HOST/hello",
            HELLO,
        )
    },
    Guest {
        needs: &["wget"],
        laments: "Forbidden",
        once: "echo tries=1 >>~/.wgetrc",
        ..Guest::new(
            "wget",
            "echo ca_certificate=$GUEST/ca.pem >~/.wgetrc",
            "wget -qO- https://$HOST/hello || { wget -O- https://$HOST/hello; exit 1; }",
            HELLO,
        )
    },
    Guest {
        needs: &["node"],
        laments: "ENOTFOUND",
        ..Guest::new(
            "node_fetch",
            "export NODE_EXTRA_CA_CERTS=$GUEST/ca.pem",
            "node $GUEST/fetch.mjs https://$HOST/hello",
            HELLO,
        )
    },
    Guest {
        needs: &["java", "javac"],
        prepare: "javac -version",
        laments: "UnresolvedAddressException",
        ..Guest::new(
            "java",
            "test -e trust || keytool -importcert -noprompt -file $GUEST/ca.pem -keystore trust -storepass changeit
             export JAVA_TOOL_OPTIONS=\"-Djavax.net.ssl.trustStore=$PWD/trust -Djavax.net.ssl.trustStorePassword=changeit\"",
            "java $GUEST/Get.java https://$HOST/hello",
            HELLO,
        )
    },
    Guest {
        modules: &["requests"],
        laments: "403",
        ..Guest::new(
            "python_requests",
            "export REQUESTS_CA_BUNDLE=$GUEST/ca.pem",
            "$PYTHON $GUEST/requests_get.py https://$HOST/hello",
            HELLO,
        )
    },
    Guest {
        modules: &["httpx"],
        laments: "403",
        ..Guest::new(
            "python_httpx",
            "export SSL_CERT_FILE=$GUEST/ca.pem",
            "$PYTHON $GUEST/httpx_get.py https://$HOST/hello",
            HELLO,
        )
    },
    Guest {
        modules: &["aiohttp"],
        laments: "Name or service not known",
        ..Guest::new(
            "python_aiohttp",
            "export SSL_CERT_FILE=$GUEST/ca.pem",
            "$PYTHON $GUEST/aiohttp_get.py https://$HOST/hello",
            HELLO,
        )
    },
    Guest {
        modules: &["websockets"],
        laments: "403",
        ..Guest::new(
            "websocket",
            "export SSL_CERT_FILE=$GUEST/ca.pem",
            "$PYTHON $GUEST/websocket.py wss://ws.$HOST/",
            "hello from the inside",
        )
    },
    Guest {
        modules: &["grpc"],
        laments: "StatusCode.UNAVAILABLE",
        ..Guest::new(
            "grpc",
            "export GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=$GUEST/ca.pem",
            "$PYTHON $GUEST/call.py grpc.$HOST:443",
            "hello with trailers",
        )
    },
];
