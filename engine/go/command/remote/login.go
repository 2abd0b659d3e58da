package remote

import (
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// login is what an endpoint needs for the SSH handshake. The closer ends the connection to the agent, if there is one.
func (e *Endpoint) login() (*ssh.ClientConfig, io.Closer, error) {
	config := &ssh.ClientConfig{User: stringOr(e.User, defaultUser), HostKeyCallback: ssh.InsecureIgnoreHostKey()}
	if e.HostKey != nil {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(*e.HostKey))
		if err != nil {
			return nil, nil, fmt.Errorf("hostKey of %s is no public key: %w", *e.Host, err)
		}
		config.HostKeyCallback = ssh.FixedHostKey(key)
		config.HostKeyAlgorithms = hostKeyAlgorithms(key)
	}
	if e.PrivateKey != nil {
		signer, err := e.signer()
		if err != nil {
			return nil, nil, fmt.Errorf("privateKey for %s: %w", *e.Host, err)
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(signer))
	}
	if e.Password != nil {
		config.Auth = append(config.Auth, ssh.Password(*e.Password), ssh.KeyboardInteractive(e.answer))
	}
	socket := stringOr(e.AgentSocketPath, os.Getenv(agentSocketVariable))
	if socket == "" {
		return config, io.NopCloser(nil), nil
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, nil, fmt.Errorf("SSH agent: %w", err)
	}
	config.Auth = append(config.Auth, ssh.PublicKeysCallback(agent.NewClient(conn).Signers))
	return config, conn, nil
}

func (e *Endpoint) signer() (ssh.Signer, error) {
	if e.PrivateKeyPassword != nil {
		return ssh.ParsePrivateKeyWithPassphrase([]byte(*e.PrivateKey), []byte(*e.PrivateKeyPassword))
	}
	return ssh.ParsePrivateKey([]byte(*e.PrivateKey))
}

// answer gives the password to whatever a server asks: servers that ask this way ask for it.
func (e *Endpoint) answer(_, _ string, questions []string, _ []bool) ([]string, error) {
	answers := make([]string, len(questions))
	for i := range answers {
		answers[i] = *e.Password
	}
	return answers, nil
}

// hostKeyAlgorithms asks the server for the pinned kind of key. An RSA key is used with several signatures, of which
// servers refuse the one that bears the key's own name.
func hostKeyAlgorithms(key ssh.PublicKey) []string {
	if key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSA}
	}
	return []string{key.Type()}
}

func stringOr(value *string, fallback string) string {
	if value == nil {
		return fallback
	}
	return *value
}
