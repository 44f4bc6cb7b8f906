//! Package managers, and git.

use crate::guest::{Guest, Way};

/// Clones, compares what is big, and gives something back.
const GIT: &str = r#"cat >git.sh <<'end'
    export GIT_TERMINAL_PROMPT=0
    git clone --quiet "$FROM" copy
    cd copy
    sha256sum -c big.sha256
    git checkout --quiet -b "branch-$HOST-$KIND"
    head -c 3000000 /dev/urandom >more
    git add more
    git -c user.name=guest -c user.email=guest@$HOST commit --quiet --message more
    git push --quiet origin HEAD
    git ls-remote origin
end
"#;

pub(crate) const GUESTS: &[Guest] = &[
    Guest {
        needs: &["git"],
        prepare: GIT,
        laments: "403",
        ..Guest::new(
            "git_https",
            "export GIT_SSL_CAINFO=$GUEST/ca.pem",
            "KIND=https FROM=https://$HOST/git/tiny.git sh -e ./git.sh",
            "-https\n",
        )
    },
    Guest {
        needs: &["git", "ssh", "sshd"],
        prepare: GIT,
        ways: &[Way::Passthrough, Way::Denied],
        laments: "Could not resolve hostname",
        ..Guest::new(
            "git_ssh",
            "",
            "export GIT_SSH_COMMAND=\"ssh -i $GUEST/id_ed25519 -o UserKnownHostsFile=$GUEST/known_hosts\"
             REPOSITORY=$(cat $GUEST/repository)
             KIND=ssh FROM=ssh://$(cat $GUEST/ssh_user)@$HOST$REPOSITORY sh -e ./git.sh",
            "refs/heads/branch-plain.test-ssh",
        )
    },
    Guest {
        needs: &["python3"],
        prepare: "python3 -m venv own",
        // It tells why only when it tries again.
        once: "export PIP_RETRIES=1",
        laments: "403",
        ..Guest::new(
            "pip",
            "export PIP_CERT=$GUEST/ca.pem",
            "export PIP_DISABLE_PIP_VERSION_CHECK=1
             own/bin/pip install --index-url https://$HOST/simple/ tiny
             own/bin/python -c 'import tiny; print(tiny.word())'",
            "from a wheel",
        )
    },
    Guest {
        needs: &["node", "npm"],
        once: "export npm_config_fetch_retries=0",
        laments: "403",
        ..Guest::new(
            "npm",
            "export npm_config_cafile=$GUEST/ca.pem",
            "export npm_config_update_notifier=false
             npm install --no-audit --no-fund --registry https://$HOST/npm/ tiny
             node -e 'console.log(require(\"tiny\")())'",
            "from a tarball",
        )
    },
    Guest {
        needs: &["cargo", "cc"],
        prepare: "
            cargo init --quiet --name guest .
            mkdir .cargo
            printf '[registries.outside]\nindex = \"sparse+https://%s/cargo/\"\n' $HOST >.cargo/config.toml
            printf 'tiny = { version = \"1\", registry = \"outside\" }\n' >>Cargo.toml
            echo 'fn main() { println!(\"{}\", tiny::word()); }' >src/main.rs",
        once: "export CARGO_NET_RETRY=0",
        laments: "403",
        ..Guest::new(
            "cargo",
            "export CARGO_HTTP_CAINFO=$GUEST/ca.pem",
            "cargo run --quiet",
            "from a crate",
        )
    },
    Guest {
        needs: &["apt-get", "dpkg-deb"],
        prepare: "
            mkdir -p apt/etc/apt.conf.d apt/etc/preferences.d apt/etc/trusted.gpg.d apt/lists/partial apt/cache/archives/partial
            : >apt/status
            echo \"deb [trusted=yes] https://$HOST/apt ./\" >apt/etc/sources.list
            cat >apt.sh <<'end'
            exec apt-get -o Dir=$PWD/apt -o Dir::Etc=$PWD/apt/etc -o Dir::State=$PWD/apt -o Dir::State::status=$PWD/apt/status \
                -o Dir::Cache=$PWD/apt/cache -o Dir::Bin::methods=/usr/lib/apt/methods -o APT::Architecture=amd64 \
                -o Acquire::Languages=none $TRUST \"$@\"
end",
        once: "export TRUST=\"$TRUST -o Acquire::Retries=0 -o APT::Update::Error-Mode=any\"",
        laments: "403",
        ..Guest::new(
            "apt",
            "export TRUST=\"-o Acquire::https::CaInfo=$GUEST/ca.pem\"",
            "sh ./apt.sh update
             sh ./apt.sh download tiny
             dpkg-deb -x tiny_1.0_all.deb got
             cat got/usr/share/tiny/word",
            "from a deb",
        )
    },
    Guest {
        needs: &["go"],
        prepare: "
            cp $GUEST/main.go .
            printf 'module guest\n\ngo 1.18\n\nrequire example.com/tiny v1.0.0\n' >go.mod",
        laments: "Forbidden",
        ..Guest::new(
            "go",
            "export SSL_CERT_FILE=$GUEST/ca.pem",
            "export GOPROXY=https://$HOST/go GOFLAGS=-mod=mod GOSUMDB=off
             go run . https://$HOST/hello",
            "from a module\nhello from the outside",
        )
    },
];
