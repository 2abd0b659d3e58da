package remote

import (
	"context"

	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"rocelab/engine/go/command/shared"
)

// Command runs commands on a host when the resource is created, updated or deleted.
type Command struct{}

// CommandInputs are the inputs of a remote.Command.
type CommandInputs struct {
	shared.Lifecycle
	Stdin                  *string           `pulumi:"stdin,optional"`
	Logging                *Logging          `pulumi:"logging,optional"`
	Connection             *Connection       `pulumi:"connection"                      provider:"secret"`
	Environment            map[string]string `pulumi:"environment,optional"`
	AddPreviousOutputInEnv *bool             `pulumi:"addPreviousOutputInEnv,optional"`
}

// CommandOutputs are the inputs, and what the last command printed.
type CommandOutputs struct {
	CommandInputs
	shared.Output
}

// Annotate describes the resource in the provider's schema.
func (c *Command) Annotate(a infer.Annotator) { a.Describe(&c, "A command on a host, over SSH.") }

// Annotate describes the fields in the provider's schema.
func (c *CommandInputs) Annotate(a infer.Annotator) {
	a.Describe(&c.Stdin, "Text for the command's standard input.")
	a.Describe(&c.Logging, "Which streams are logged while the command runs; both by default.")
	a.Describe(&c.Connection, "The host, and how to log in to it.")
	a.Describe(&c.Environment, "Variables of the command's environment; the server must accept them.")
	a.Describe(&c.AddPreviousOutputInEnv,
		"Whether PULUMI_COMMAND_STDOUT and PULUMI_COMMAND_STDERR hold what the previous command printed; true by default.")
}

// Create runs the create command, if there is one.
func (*Command) Create(
	ctx context.Context, req infer.CreateRequest[CommandInputs],
) (infer.CreateResponse[CommandOutputs], error) {
	state := CommandOutputs{CommandInputs: req.Inputs}
	id, err := resource.NewUniqueHex(req.Name, 8, 0)
	if err == nil && !req.DryRun {
		err = state.run(ctx, req.Inputs.Create)
	}
	return infer.CreateResponse[CommandOutputs]{ID: id, Output: state}, err
}

// Update runs the update command, else the create command again.
func (*Command) Update(
	ctx context.Context, req infer.UpdateRequest[CommandInputs, CommandOutputs],
) (infer.UpdateResponse[CommandOutputs], error) {
	state := CommandOutputs{CommandInputs: req.Inputs, Output: req.State.Output}
	var err error
	if !req.DryRun {
		err = state.run(ctx, req.Inputs.OnUpdate())
	}
	return infer.UpdateResponse[CommandOutputs]{Output: state}, err
}

// Delete runs the delete command, if there is one.
func (*Command) Delete(
	ctx context.Context, req infer.DeleteRequest[CommandOutputs],
) (infer.DeleteResponse, error) {
	return infer.DeleteResponse{}, req.State.run(ctx, req.State.Delete)
}
