// Package remote runs commands and copies files over SSH.
package remote

import "github.com/pulumi/pulumi-go-provider/infer"

const (
	defaultUser             = "root"
	defaultPort             = 22
	defaultDialErrorLimit   = 10
	unlimitedDialErrors     = -1
	defaultPerDialTimeoutS  = 15
	agentSocketVariable     = "SSH_AUTH_SOCK"
	shortestRetryDelayMs    = 100
	longestRetryDelayMs     = 5000
	retryDelayGrowthPercent = 150
)

// Endpoint is one SSH server and how to log in to it.
type Endpoint struct {
	User               *string  `pulumi:"user,optional"`
	Password           *string  `pulumi:"password,optional"           provider:"secret"`
	Host               *string  `pulumi:"host"`
	Port               *float64 `pulumi:"port,optional"`
	PrivateKey         *string  `pulumi:"privateKey,optional"         provider:"secret"`
	PrivateKeyPassword *string  `pulumi:"privateKeyPassword,optional" provider:"secret"`
	AgentSocketPath    *string  `pulumi:"agentSocketPath,optional"`
	DialErrorLimit     *int     `pulumi:"dialErrorLimit,optional"`
	PerDialTimeout     *int     `pulumi:"perDialTimeout,optional"`
	HostKey            *string  `pulumi:"hostKey,optional"`
}

// Connection is how to reach a host, through a bastion when there is one.
type Connection struct {
	Endpoint
	Proxy *ProxyConnection `pulumi:"proxy,optional"`
}

// ProxyConnection is how to reach a bastion.
type ProxyConnection struct{ Endpoint }

// Annotate describes the fields in the provider's schema, and sets their defaults.
func (c *Connection) Annotate(a infer.Annotator) {
	annotate(a, &c.Endpoint)
	a.Describe(&c.Proxy, "The bastion through which the host is reached.")
}

// Annotate describes the fields in the provider's schema, and sets their defaults.
func (c *ProxyConnection) Annotate(a infer.Annotator) { annotate(a, &c.Endpoint) }

func annotate(a infer.Annotator, e *Endpoint) {
	a.Describe(&e.User, "The user to log in as.")
	a.SetDefault(&e.User, defaultUser)
	a.Describe(&e.Password, "The user's password.")
	a.Describe(&e.Host, "Address of the SSH server.")
	a.Describe(&e.Port, "Port of the SSH server.")
	a.SetDefault(&e.Port, defaultPort)
	a.Describe(&e.PrivateKey, "Text of the private key; offered before the password.")
	a.Describe(&e.PrivateKeyPassword, "Password of an encrypted private key.")
	a.Describe(&e.AgentSocketPath, "Socket of an SSH agent; by default that of "+agentSocketVariable+".")
	a.Describe(&e.DialErrorLimit, "How many failed attempts are followed by another one; -1 sets no limit.")
	a.SetDefault(&e.DialErrorLimit, defaultDialErrorLimit)
	a.Describe(&e.PerDialTimeout, "Seconds that one attempt may take; 0 sets no limit.")
	a.SetDefault(&e.PerDialTimeout, defaultPerDialTimeoutS)
	a.Describe(&e.HostKey, "The host's public key; without it any is accepted.")
}
