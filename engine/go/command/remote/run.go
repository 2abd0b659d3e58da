package remote

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	p "github.com/pulumi/pulumi-go-provider"
	"golang.org/x/crypto/ssh"

	"rocelab/engine/go/command/shared"
)

// run executes one command over a connection of its own and keeps what it printed. Without a command nothing happens,
// not even a connection.
func (c *CommandOutputs) run(ctx context.Context, command *string) error {
	if command == nil {
		return nil
	}
	conn, err := c.Connection.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	session, err := conn.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	if err := c.setEnvironment(ctx, session); err != nil {
		return err
	}
	if err := feed(session, c.Stdin); err != nil {
		return err
	}

	capture := shared.NewCapture(ctx)
	session.Stdout, session.Stderr = capture.Writers(shared.StreamsOf(c.Logging))
	// Only the connection's end is certain to end the command's wait, but most servers pass a signal on.
	stop := context.AfterFunc(ctx, func() { _ = session.Signal(ssh.SIGTERM) })
	defer stop()
	if err := session.Run(*command); err != nil {
		return capture.Failure(causeOf(ctx, err), *command)
	}
	c.Output = capture.Output()
	return nil
}

// setEnvironment sends the variables. Those of the user must be accepted by the server; those of the previous output
// are sent on the chance that it does.
func (c *CommandOutputs) setEnvironment(ctx context.Context, session *ssh.Session) error {
	for _, name := range slices.Sorted(maps.Keys(c.Environment)) {
		if err := session.Setenv(name, c.Environment[name]); err != nil {
			return fmt.Errorf(
				"could not set environment variable %q on %s: the server must name it in AcceptEnv: %w",
				name, *c.Connection.Host, err)
		}
	}
	if c.AddPreviousOutputInEnv != nil && !*c.AddPreviousOutputInEnv {
		return nil
	}
	previous := c.PreviousOutput()
	for _, name := range slices.Sorted(maps.Keys(previous)) {
		if err := session.Setenv(name, previous[name]); err != nil {
			p.GetLogger(ctx).Warningf("%s is not set on %s: its AcceptEnv does not name it", name, *c.Connection.Host)
		}
	}
	return nil
}

// feed writes standard input beside the command. A command may end without reading all of it: that is no failure.
func feed(session *ssh.Session, stdin *string) error {
	if stdin == nil || *stdin == "" {
		return nil
	}
	pipe, err := session.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		defer pipe.Close()
		_, _ = io.WriteString(pipe, *stdin)
	}()
	return nil
}
