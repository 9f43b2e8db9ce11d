package process

import (
	"crypto/x509"
	"fmt"
	"os"
)

// RootCAs are the system's certificates and those in a PEM file. An empty file
// name gives nil: the system's alone. flag names the setting in errors.
func RootCAs(flag, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w; name a file that can be read", flag, err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--%s %s: no certificate in it; want PEM, -----BEGIN CERTIFICATE-----", flag, file)
	}
	return pool, nil
}
