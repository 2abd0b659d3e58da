package shared

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	p "github.com/pulumi/pulumi-go-provider"
)

const (
	// longestLogged is the length in bytes at which a line is logged in pieces.
	longestLogged = 16 << 10
	// longestQuoted and longestTail bound what an error shows of the command and of its output, in bytes.
	longestQuoted = 200
	longestTail   = 8 << 10
)

// Streams says which streams of a command are logged while it runs.
type Streams struct{ Stdout, Stderr bool }

// Capture collects what a command prints, and logs it line by line. A writer never waits for a reader, so neither
// long lines nor much output can stop the command.
type Capture struct {
	mu       sync.Mutex // the two streams are written from two goroutines
	stdout   bytes.Buffer
	stderr   bytes.Buffer
	combined bytes.Buffer
	log      func(string)
	lines    []*lineLogger
}

// NewCapture logs to the engine that ctx belongs to.
func NewCapture(ctx context.Context) *Capture {
	logger := p.GetLogger(ctx)
	return &Capture{log: logger.InfoStatus}
}

// Writers are where the command's standard output and standard error go.
func (c *Capture) Writers(logged Streams) (stdout, stderr io.Writer) {
	return c.writer(&c.stdout, logged.Stdout), c.writer(&c.stderr, logged.Stderr)
}

// Output is what was captured, once the command has ended.
func (c *Capture) Output() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		line.flush()
	}
	return Output{Stdout: textOf(c.stdout.Bytes()), Stderr: textOf(c.stderr.Bytes())}
}

// Failure is the error of a command that did not succeed: why, what ran, and the end of what it printed. A command
// is shown by its beginning only, since scripts are long and hold values that nobody wants in a log.
func (c *Capture) Failure(cause error, command string) error {
	c.Output()
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := c.combined.Bytes()
	if len(tail) > longestTail {
		tail = append([]byte("..."), tail[len(tail)-longestTail:]...)
	}
	if len(command) > longestQuoted {
		command = command[:longestQuoted] + "..."
	}
	return fmt.Errorf("%w: running %q:\n%s", cause, textOf([]byte(command)), textOf(tail))
}

// textOf drops the last newline, and replaces what is not UTF-8: the engine's protocol would refuse the whole answer.
func textOf(output []byte) string {
	return strings.ToValidUTF8(strings.TrimSuffix(string(output), "\n"), "\uFFFD")
}

type streamWriter struct {
	capture *Capture
	buffer  *bytes.Buffer
	line    *lineLogger
}

func (c *Capture) writer(buffer *bytes.Buffer, logged bool) io.Writer {
	writer := &streamWriter{capture: c, buffer: buffer}
	if logged {
		writer.line = &lineLogger{log: c.log}
		c.lines = append(c.lines, writer.line)
	}
	return writer
}

func (w *streamWriter) Write(data []byte) (int, error) {
	w.capture.mu.Lock()
	defer w.capture.mu.Unlock()
	w.buffer.Write(data)
	w.capture.combined.Write(data)
	if w.line != nil {
		w.line.add(data)
	}
	return len(data), nil
}

// lineLogger cuts a stream into lines.
type lineLogger struct {
	log     func(string)
	pending []byte
}

func (l *lineLogger) add(data []byte) {
	l.pending = append(l.pending, data...)
	for {
		end := bytes.IndexByte(l.pending, '\n')
		if end < 0 && len(l.pending) <= longestLogged {
			return
		}
		next := end + 1
		if end < 0 || end > longestLogged {
			end, next = longestLogged, longestLogged
		}
		l.emit(l.pending[:end])
		l.pending = l.pending[next:]
	}
}

func (l *lineLogger) flush() {
	if len(l.pending) > 0 {
		l.emit(l.pending)
		l.pending = nil
	}
}

func (l *lineLogger) emit(line []byte) {
	l.log(textOf(bytes.TrimSuffix(line, []byte("\r"))))
}
