package shared

// The values of the Logging enumerations, which each module of the provider has for itself.
const (
	LogStdout          = "stdout"
	LogStderr          = "stderr"
	LogStdoutAndStderr = "stdoutAndStderr"
	LogNone            = "none"
)

// StreamsOf says which streams a value of Logging means; both when it is not set.
func StreamsOf[L ~string](logging *L) Streams {
	if logging == nil {
		return Streams{Stdout: true, Stderr: true}
	}
	switch string(*logging) {
	case LogStdout:
		return Streams{Stdout: true}
	case LogStderr:
		return Streams{Stderr: true}
	case LogStdoutAndStderr:
		return Streams{Stdout: true, Stderr: true}
	default:
		return Streams{}
	}
}
