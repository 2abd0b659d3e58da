package local

import (
	"github.com/pulumi/pulumi-go-provider/infer"

	"rocelab/engine/go/command/shared"
)

// Logging says which streams appear in the engine's log while a command runs; both are captured in any case.
type Logging string

// Values lists the enumeration in the provider's schema.
func (Logging) Values() []infer.EnumValue[Logging] {
	return []infer.EnumValue[Logging]{
		{Name: shared.LogStdout, Value: shared.LogStdout, Description: "Logs standard output only."},
		{Name: shared.LogStderr, Value: shared.LogStderr, Description: "Logs standard error only."},
		{Name: shared.LogStdoutAndStderr, Value: shared.LogStdoutAndStderr, Description: "Logs both."},
		{Name: shared.LogNone, Value: shared.LogNone, Description: "Logs nothing."},
	}
}
