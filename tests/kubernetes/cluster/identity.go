package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// token authenticates every client of a cluster as an administrator. The cluster listens on loopback only and is
// gone with its directory.
const token = "trial"

// identity holds the files by which the parts of a cluster know each other.
type identity struct {
	dir string
}

func (i identity) file(name string) string { return filepath.Join(i.dir, name) }

// newIdentity writes a certificate authority, certificates for 127.0.0.1 and for clients of the store, a key for service
// accounts and a token.
func newIdentity(dir string) (identity, error) {
	i := identity{dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return i, err
	}
	authority, authorityKey, err := i.certificate("ca", nil, nil)
	if err != nil {
		return i, err
	}
	for _, name := range []string{"server", "client"} {
		if _, _, err := i.certificate(name, authority, authorityKey); err != nil {
			return i, err
		}
	}
	account, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return i, err
	}
	if err := i.write("sa.key", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(account)); err != nil {
		return i, err
	}
	line := token + ",admin,admin,system:masters\n"
	return i, os.WriteFile(i.file("tokens.csv"), []byte(line), 0o600)
}

// certificate makes <name>.crt and <name>.key, signed by the authority, or by itself if there is none.
func (i identity) certificate(name string, authority *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate,
	*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "trial-" + name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(0, 1, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
	if authority == nil {
		template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
		authority, by = template, key
	} else {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		template.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, by)
	if err != nil {
		return nil, nil, err
	}
	if err := i.write(name+".crt", "CERTIFICATE", der); err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := i.write(name+".key", "PRIVATE KEY", private); err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

func (i identity) write(name, kind string, der []byte) error {
	return os.WriteFile(i.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// kubeconfig writes a configuration for clients of the API server at the given port.
func (i identity) kubeconfig(name string, port int) (string, error) {
	const layout = `apiVersion: v1
kind: Config
current-context: trial
contexts: [{name: trial, context: {cluster: trial, user: trial}}]
clusters: [{name: trial, cluster: {server: "https://127.0.0.1:%d", certificate-authority: %q}}]
users: [{name: trial, user: {token: %q}}]
`
	path := i.file(name)
	return path, os.WriteFile(path, fmt.Appendf(nil, layout, port, i.file("ca.crt"), token), 0o600)
}

// httpClient talks to a store that demands certificates.
func (i identity) httpClient() (*http.Client, error) {
	certificate, err := tls.LoadX509KeyPair(i.file("client.crt"), i.file("client.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(i.file("ca.crt"))
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: trusted},
	}}, nil
}
