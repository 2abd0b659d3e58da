// Package local runs commands on the machine of the engine.
package local

import (
	"context"

	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/infer/types"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"rocelab/engine/go/command/shared"
)

// Command runs commands here when the resource is created, updated or deleted.
type Command struct{}

// CommandInputs are the inputs of a local.Command.
type CommandInputs struct {
	shared.Lifecycle
	Stdin                  *string            `pulumi:"stdin,optional"`
	Logging                *Logging           `pulumi:"logging,optional"`
	Interpreter            *[]string          `pulumi:"interpreter,optional"`
	Dir                    *string            `pulumi:"dir,optional"`
	Environment            *map[string]string `pulumi:"environment,optional"`
	AssetPaths             *[]string          `pulumi:"assetPaths,optional"`
	ArchivePaths           *[]string          `pulumi:"archivePaths,optional"`
	AddPreviousOutputInEnv *bool              `pulumi:"addPreviousOutputInEnv,optional"`
}

// CommandOutputs are the inputs, what the last command printed, and the files that it left.
type CommandOutputs struct {
	CommandInputs
	shared.Output
	Assets  *map[string]*types.AssetOrArchive `pulumi:"assets,optional"`
	Archive *resource.Archive                 `pulumi:"archive,optional"`
}

// Annotate describes the resource in the provider's schema.
func (c *Command) Annotate(a infer.Annotator) { a.Describe(&c, "A command on this machine.") }

// Annotate describes the fields in the provider's schema.
func (c *CommandInputs) Annotate(a infer.Annotator) {
	a.Describe(&c.Stdin, "Text for the command's standard input.")
	a.Describe(&c.Logging, "Which streams are logged while the command runs; both by default.")
	a.Describe(&c.Interpreter, "Program and arguments that take the command as their last; /bin/sh -c by default.")
	a.Describe(&c.Dir, "Folder in which the command runs; that of the program by default.")
	a.Describe(&c.Environment, "Variables added to the command's environment.")
	a.Describe(&c.AssetPaths, "Patterns of files that become outputs; one with a leading ! takes files away again.")
	a.Describe(&c.ArchivePaths, "Patterns of files that become one archive; rules as for assetPaths.")
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
	state := req.State
	state.CommandInputs = req.Inputs
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
