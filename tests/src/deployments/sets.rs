//! What each tool passes.

/// One tool's way to start etcd. `{dir}` is the directory of the trial, `{dir}/pki` holds the
/// certificates, the other placeholders are ports.
pub(super) struct Deployment {
    pub(super) name: &'static str,
    /// Separated by white space.
    pub(super) flags: &'static str,
    /// One per line.
    pub(super) variables: &'static str,
    /// The configuration file, if there is one.
    pub(super) file: &'static str,
    /// Where the tool's clients call.
    pub(super) endpoints: &'static str,
    /// Port, path, and what the answer must hold.
    pub(super) probes: &'static [(&'static str, &'static str, &'static str)],
}

const NONE: Deployment =
    Deployment { name: "", flags: "", variables: "", file: "", endpoints: "", probes: &[] };

pub(super) const DEPLOYMENTS: [Deployment; 10] = [
    Deployment {
        name: "kubeadm",
        flags: "--name=node-1 --feature-gates=InitialCorruptCheck=true
            --listen-client-urls=https://127.0.0.1:{client},https://127.0.0.2:{client}
            --advertise-client-urls=https://127.0.0.2:{client}
            --listen-peer-urls=https://127.0.0.2:{peer} --initial-advertise-peer-urls=https://127.0.0.2:{peer}
            --initial-cluster=node-1=https://127.0.0.2:{peer} --data-dir={dir}/etcd
            --cert-file={dir}/pki/server.crt --key-file={dir}/pki/server.key
            --trusted-ca-file={dir}/pki/ca.crt --client-cert-auth=true
            --peer-cert-file={dir}/pki/server.crt --peer-key-file={dir}/pki/server.key
            --peer-trusted-ca-file={dir}/pki/ca.crt --peer-client-cert-auth=true
            --snapshot-count=10000 --listen-metrics-urls=http://127.0.0.1:{metrics}
            --watch-progress-notify-interval=5s",
        endpoints: "https://127.0.0.1:{client},https://127.0.0.2:{client}",
        probes: &[
            ("{metrics}", "/livez", "ok"),
            ("{metrics}", "/readyz", "ok"),
            ("{metrics}", "/health?serializable=true", "true"),
            ("{metrics}", "/metrics", "etcd_server_has_leader 1"),
        ],
        ..NONE
    },
    Deployment {
        name: "kubeadm of 1.33 and before",
        flags: "--advertise-client-urls=https://127.0.0.2:{client} --cert-file={dir}/pki/server.crt
            --client-cert-auth=true --data-dir={dir}/etcd --experimental-initial-corrupt-check=true
            --experimental-watch-progress-notify-interval=5s
            --initial-advertise-peer-urls=https://127.0.0.2:{peer}
            --initial-cluster=node-1=https://127.0.0.2:{peer} --key-file={dir}/pki/server.key
            --listen-client-urls=https://127.0.0.1:{client},https://127.0.0.2:{client}
            --listen-metrics-urls=http://127.0.0.1:{metrics} --listen-peer-urls=https://127.0.0.2:{peer}
            --name=node-1 --peer-cert-file={dir}/pki/server.crt --peer-client-cert-auth=true
            --peer-key-file={dir}/pki/server.key --peer-trusted-ca-file={dir}/pki/ca.crt --snapshot-count=10000
            --trusted-ca-file={dir}/pki/ca.crt",
        endpoints: "https://127.0.0.1:{client}",
        probes: &[("{metrics}", "/health?serializable=true", "true")],
        ..NONE
    },
    Deployment {
        name: "k3s and RKE2",
        file: "\
advertise-client-urls: https://127.0.0.2:{client}
bootstrap-defrag-threshold-megabytes: 100
client-transport-security:
  cert-file: {dir}/pki/server.crt
  client-cert-auth: true
  key-file: {dir}/pki/server.key
  trusted-ca-file: {dir}/pki/ca.crt
data-dir: {dir}/etcd
election-timeout: 5000
experimental-initial-corrupt-check: true
experimental-watch-progress-notify-interval: 5000000000
heartbeat-interval: 500
initial-advertise-peer-urls: https://127.0.0.2:{peer}
initial-cluster: node-1-7c4a3f0e=https://127.0.0.2:{peer}
initial-cluster-state: new
listen-client-http-urls: https://127.0.0.1:{http}
listen-client-urls: https://127.0.0.1:{client},https://127.0.0.2:{client}
listen-metrics-urls: http://127.0.0.1:{metrics}
listen-peer-urls: https://127.0.0.1:{peer},https://127.0.0.2:{peer}
log-outputs:
- stderr
logger: zap
name: node-1-7c4a3f0e
peer-transport-security:
  cert-file: {dir}/pki/server.crt
  client-cert-auth: true
  key-file: {dir}/pki/server.key
  trusted-ca-file: {dir}/pki/ca.crt
snapshot-count: 10000
socket-options:
  reuse-address: true
  reuse-port: true
",
        endpoints: "https://127.0.0.1:{client}",
        probes: &[("{metrics}", "/health", "true")],
        ..NONE
    },
    Deployment {
        name: "OpenShift",
        flags: "--logger=zap --log-level=info --feature-gates=InitialCorruptCheck=true
            --initial-advertise-peer-urls=https://127.0.0.2:{peer}
            --cert-file={dir}/pki/server.crt --key-file={dir}/pki/server.key --trusted-ca-file={dir}/pki/ca.crt
            --client-cert-auth=true --peer-cert-file={dir}/pki/server.crt --peer-key-file={dir}/pki/server.key
            --peer-trusted-ca-file={dir}/pki/ca.crt --peer-client-cert-auth=true
            --advertise-client-urls=https://127.0.0.2:{client}
            --listen-client-urls=https://0.0.0.0:{client},unixs://127.0.0.2:0
            --listen-client-http-urls=https://0.0.0.0:{http} --listen-peer-urls=https://0.0.0.0:{peer}
            --metrics=extensive --listen-metrics-urls=https://0.0.0.0:{metrics}",
        variables: "
            ALL_ETCD_ENDPOINTS=https://127.0.0.2:{client}
            ETCDCTL_API=3
            ETCDCTL_CACERT={dir}/pki/ca.crt
            ETCD_CIPHER_SUITES=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
            ETCD_DATA_DIR={dir}/etcd
            ETCD_ELECTION_TIMEOUT=1000
            ETCD_ENABLE_PPROF=true
            ETCD_HEARTBEAT_INTERVAL=100
            ETCD_IMAGE=quay.io/openshift-release-dev/ocp-v4.0-art-dev
            ETCD_INITIAL_CLUSTER=node-1=https://127.0.0.2:{peer}
            ETCD_INITIAL_CLUSTER_STATE=new
            ETCD_MAX_LEARNERS=1
            ETCD_NAME=node-1
            ETCD_QUOTA_BACKEND_BYTES=8589934592
            ETCD_SOCKET_REUSE_ADDRESS=true
            ETCD_STATIC_POD_VERSION=7
            ETCD_TLS_MIN_VERSION=TLS1.2
            ETCD_WARNING_APPLY_DURATION=200ms
            ETCD_WATCH_PROGRESS_NOTIFY_INTERVAL=5s
            NODE_node_1_IP=127.0.0.2",
        endpoints: "https://127.0.0.2:{client}",
        ..NONE
    },
    Deployment {
        name: "kubespray",
        variables: "
            ETCD_DATA_DIR={dir}/etcd
            ETCD_ADVERTISE_CLIENT_URLS=https://127.0.0.2:{client}
            ETCD_INITIAL_ADVERTISE_PEER_URLS=https://127.0.0.2:{peer}
            ETCD_INITIAL_CLUSTER_STATE=new
            ETCD_METRICS=basic
            ETCD_LISTEN_METRICS_URLS=http://127.0.0.1:{metrics}
            ETCD_LISTEN_CLIENT_URLS=https://127.0.0.2:{client},https://127.0.0.1:{client}
            ETCD_ELECTION_TIMEOUT=5000
            ETCD_HEARTBEAT_INTERVAL=250
            ETCD_INITIAL_CLUSTER_TOKEN=k8s_etcd
            ETCD_LISTEN_PEER_URLS=https://127.0.0.2:{peer}
            ETCD_NAME=etcd1
            ETCD_PROXY=off
            ETCD_INITIAL_CLUSTER=etcd1=https://127.0.0.2:{peer}
            ETCD_AUTO_COMPACTION_RETENTION=8
            ETCD_SNAPSHOT_COUNT=100000
            ETCD_QUOTA_BACKEND_BYTES=2147483648
            ETCD_MAX_REQUEST_BYTES=1572864
            ETCD_LOG_LEVEL=info
            ETCD_MAX_SNAPSHOTS=5
            ETCD_MAX_WALS=5
            ETCD_TRUSTED_CA_FILE={dir}/pki/ca.crt
            ETCD_CERT_FILE={dir}/pki/server.crt
            ETCD_KEY_FILE={dir}/pki/server.key
            ETCD_CLIENT_CERT_AUTH=true
            ETCD_PEER_TRUSTED_CA_FILE={dir}/pki/ca.crt
            ETCD_PEER_CERT_FILE={dir}/pki/server.crt
            ETCD_PEER_KEY_FILE={dir}/pki/server.key
            ETCD_PEER_CLIENT_CERT_AUTH=True
            ETCD_CIPHER_SUITES=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=True
            ETCD_EXPERIMENTAL_WATCH_PROGRESS_NOTIFY_INTERVAL=5s
            ETCDCTL_ENDPOINTS=https://127.0.0.1:{client}
            ETCDCTL_CACERT={dir}/pki/ca.crt",
        endpoints: "https://127.0.0.1:{client}",
        probes: &[("{metrics}", "/metrics", "etcd_server_quota_backend_bytes")],
        ..NONE
    },
    Deployment {
        name: "Talos",
        flags: "--name=talos-1 --auto-tls=false --peer-auto-tls=false --data-dir={dir}/etcd
            --listen-peer-urls=https://127.0.0.2:{peer} --listen-client-urls=https://127.0.0.1:{client}
            --listen-client-http-urls=https://127.0.0.1:{http} --client-cert-auth=true
            --cert-file={dir}/pki/server.crt --key-file={dir}/pki/server.key --trusted-ca-file={dir}/pki/ca.crt
            --peer-client-cert-auth=true --peer-cert-file={dir}/pki/server.crt
            --peer-key-file={dir}/pki/server.key --peer-trusted-ca-file={dir}/pki/ca.crt
            --feature-gates=InitialCorruptCheck=true,CompactHashCheck=true --watch-progress-notify-interval=5s
            --tls-min-version=TLS1.3 --initial-cluster=talos-1=https://127.0.0.2:{peer}
            --initial-cluster-state=new --initial-advertise-peer-urls=https://127.0.0.2:{peer}
            --advertise-client-urls=https://127.0.0.1:{client}",
        variables: "ETCD_UNSUPPORTED_ARCH=amd64",
        endpoints: "https://127.0.0.1:{client}",
        ..NONE
    },
    Deployment {
        name: "kops and etcd-manager",
        variables: "
            ETCD_DATA_DIR={dir}/data/8xMdPIrLRJ8q3KqH
            ETCD_NAME=etcd-a
            ETCD_LISTEN_CLIENT_URLS=https://0.0.0.0:{client}
            ETCD_ADVERTISE_CLIENT_URLS=https://127.0.0.1:{client}
            ETCD_LISTEN_PEER_URLS=https://0.0.0.0:{peer}
            ETCD_INITIAL_ADVERTISE_PEER_URLS=https://localhost:{peer}
            ETCD_INITIAL_CLUSTER=etcd-a=https://localhost:{peer}
            ETCD_INITIAL_CLUSTER_STATE=new
            ETCD_INITIAL_CLUSTER_TOKEN=8xMdPIrLRJ8q3KqH
            ETCD_CLIENT_CERT_AUTH=true
            ETCD_TRUSTED_CA_FILE={dir}/pki/ca.crt
            ETCD_CERT_FILE={dir}/pki/server.crt
            ETCD_KEY_FILE={dir}/pki/server.key
            ETCD_PEER_CLIENT_CERT_AUTH=true
            ETCD_PEER_TRUSTED_CA_FILE={dir}/pki/ca.crt
            ETCD_PEER_CERT_FILE={dir}/pki/server.crt
            ETCD_PEER_KEY_FILE={dir}/pki/server.key
            ETCD_LISTEN_METRICS_URLS=http://0.0.0.0:{metrics}
            ETCD_METRICS=basic
            ETCD_STRICT_RECONFIG_CHECK=true
            ETCD_ENABLE_V2=false
            ETCD_LOG_OUTPUTS=stdout
            ETCD_LOGGER=zap",
        endpoints: "https://127.0.0.1:{client}",
        probes: &[("{metrics}", "/health", "true")],
        ..NONE
    },
    Deployment {
        name: "envtest",
        flags: "--advertise-client-urls=http://127.0.0.1:{client} --data-dir={dir}/etcd
            --listen-client-urls=http://127.0.0.1:{client} --listen-peer-urls=http://localhost:0
            --unsafe-no-fsync=true",
        endpoints: "http://127.0.0.1:{client}",
        probes: &[("{client}", "/health", "true")],
        ..NONE
    },
    Deployment {
        name: "Kubernetes' integration tests",
        flags: "-data-dir {dir}/etcd -listen-client-urls http://127.0.0.1:{client}
            -advertise-client-urls http://127.0.0.1:{client} -listen-peer-urls http://127.0.0.1:0
            -log-level warn -quota-backend-bytes 8589934592",
        variables: "ETCD_UNSUPPORTED_ARCH=amd64",
        endpoints: "http://127.0.0.1:{client}",
        probes: &[("{client}", "/health", "true"), ("{client}", "/version", "3.7.1")],
        ..NONE
    },
    Deployment {
        name: "jetcd's containers",
        flags: "--name infra0 --advertise-client-urls https://0.0.0.0:{client}
            --listen-client-urls https://0.0.0.0:{client} --data-dir {dir}/data.etcd
            --initial-advertise-peer-urls http://127.0.0.1:{peer} --listen-peer-urls http://0.0.0.0:{peer}
            --initial-cluster infra0=http://127.0.0.1:{peer} --initial-cluster-token jetcd
            --initial-cluster-state new --cert-file {dir}/pki/server.crt --key-file {dir}/pki/server.key",
        variables: "
            ETCD_LOG_LEVEL=info
            ETCD_LOGGER=zap",
        endpoints: "https://127.0.0.1:{client}",
        ..NONE
    },
];
