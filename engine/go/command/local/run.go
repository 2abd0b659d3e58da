package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"rocelab/engine/go/command/shared"
)

// grace is how long a cancelled command may take to end by itself.
const grace = 5 * time.Second

// run executes one command and keeps what it printed and the files that it left. Without a command nothing happens.
func (c *CommandOutputs) run(ctx context.Context, command *string) error {
	if command == nil {
		return nil
	}
	arguments := []string{"/bin/sh", "-c"}
	if c.Interpreter != nil && len(*c.Interpreter) > 0 {
		arguments = append([]string{}, *c.Interpreter...)
	}
	arguments = append(arguments, *command)
	program := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	if c.Dir != nil {
		program.Dir = *c.Dir
	}
	program.Env = c.environment()
	if c.Stdin != nil && *c.Stdin != "" {
		program.Stdin = strings.NewReader(*c.Stdin)
	}
	endWithChildren(program)

	capture := shared.NewCapture(ctx)
	program.Stdout, program.Stderr = capture.Writers(shared.StreamsOf(c.Logging))
	if err := program.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil && program.Process != nil {
			err = cause
			_ = signalGroup(program, syscall.SIGKILL) // what did not end in the grace period
		}
		return capture.Failure(err, *command)
	}
	c.Output = capture.Output()
	return c.collect(program.Dir)
}

func (c *CommandOutputs) environment() []string {
	environment := os.Environ()
	if c.Environment != nil {
		for name, value := range *c.Environment {
			environment = append(environment, name+"="+value)
		}
	}
	if c.AddPreviousOutputInEnv == nil || *c.AddPreviousOutputInEnv {
		for name, value := range c.PreviousOutput() {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

// endWithChildren makes cancelling reach what the command started: all of its process group is asked to end.
func endWithChildren(program *exec.Cmd) {
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	program.WaitDelay = grace
	program.Cancel = func() error { return signalGroup(program, syscall.SIGTERM) }
}

func signalGroup(program *exec.Cmd, signal syscall.Signal) error {
	err := syscall.Kill(-program.Process.Pid, signal)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
