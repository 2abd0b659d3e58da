package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	p "github.com/pulumi/pulumi-go-provider"
	"golang.org/x/crypto/ssh"
)

// client is a connection to a host. Closing it closes all that it was made of: agent, bastion, host.
type client struct {
	*ssh.Client
	closers []io.Closer
}

// Close ends everything, the last thing opened first.
func (c *client) Close() error {
	var errs []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		if err := c.closers[i].Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// dial connects to the host, retrying as the connection says. When ctx ends, so does the connection.
func (c *Connection) dial(ctx context.Context) (_ *client, err error) {
	conn := &client{}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()

	config, agent, err := c.login()
	if err != nil {
		return nil, err
	}
	conn.closers = append(conn.closers, agent)
	through := (&net.Dialer{}).DialContext
	if c.Proxy != nil {
		bastion, err := c.Proxy.dialBastion(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
		through = bastion.DialContext
	}
	conn.Client, err = retry(ctx, "Dial", c.errorLimit(), func() (*ssh.Client, error) {
		return c.handshake(ctx, through, config)
	})
	if err != nil {
		return nil, err
	}
	conn.closers = append(conn.closers, conn.Client)
	// A command that never ends is ended this way: closing the connection fails every call that waits on it.
	stop := context.AfterFunc(ctx, func() { conn.Client.Close() })
	conn.closers = append(conn.closers, closerFunc(func() { stop() }))
	return conn, nil
}

func (p *ProxyConnection) dialBastion(ctx context.Context, conn *client) (*ssh.Client, error) {
	config, agent, err := p.login()
	if err != nil {
		return nil, err
	}
	conn.closers = append(conn.closers, agent)
	bastion, err := retry(ctx, "Dial proxy", p.errorLimit(), func() (*ssh.Client, error) {
		return p.handshake(ctx, (&net.Dialer{}).DialContext, config)
	})
	if err != nil {
		return nil, err
	}
	conn.closers = append(conn.closers, bastion)
	return bastion, nil
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// handshake is one attempt: the timeout covers connecting and the handshake, since a host that accepts connections
// and then says nothing would otherwise be waited for without end.
func (e *Endpoint) handshake(ctx context.Context, dial dialFunc, config *ssh.ClientConfig) (*ssh.Client, error) {
	address := net.JoinHostPort(*e.Host, strconv.Itoa(e.port()))
	if timeout := e.perDialTimeout(); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer from %s in %s", address, timeout))
		defer cancel()
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	transport, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		conn.Close()
		return nil, causeOf(ctx, err)
	}
	return ssh.NewClient(transport, channels, requests), nil
}

// causeOf prefers the reason why a context ended over the error that its end led to.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (e *Endpoint) port() int {
	if e.Port == nil {
		return defaultPort
	}
	return int(*e.Port)
}

func (e *Endpoint) errorLimit() int {
	if e.DialErrorLimit == nil {
		return defaultDialErrorLimit
	}
	return *e.DialErrorLimit
}

func (e *Endpoint) perDialTimeout() time.Duration {
	seconds := defaultPerDialTimeoutS
	if e.PerDialTimeout != nil {
		seconds = *e.PerDialTimeout
	}
	return time.Duration(seconds) * time.Second
}

// retry calls attempt until it succeeds, its errors exceed the limit, or ctx ends. Every error is tried again: a host
// that has just been made refuses the right key for a while too.
func retry[T any](ctx context.Context, what string, limit int, attempt func() (T, error)) (T, error) {
	var none T
	delay := shortestRetryDelayMs * time.Millisecond
	shown := strconv.Itoa(limit)
	if limit == unlimitedDialErrors {
		shown = "inf"
	}
	for failed := 1; ; failed++ {
		result, err := attempt()
		if err == nil {
			return result, nil
		}
		if limit > unlimitedDialErrors && failed > limit {
			return none, fmt.Errorf("after %d failed attempts: %w", failed-1, err)
		}
		p.GetLogger(ctx).InfoStatusf("%s %d/%s failed: retrying", what, failed, shown)
		select {
		case <-ctx.Done():
			return none, fmt.Errorf("%w; last attempt: %w", context.Cause(ctx), err)
		case <-time.After(delay):
		}
		delay = min(delay*retryDelayGrowthPercent/100, longestRetryDelayMs*time.Millisecond)
	}
}

type closerFunc func()

func (f closerFunc) Close() error {
	f()
	return nil
}
