package remote

import (
	"context"

	"github.com/pkg/sftp"
	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/infer/types"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// CopyToRemote places a file or a folder on a host when the resource is created, and again when the source's content
// or the remote path changes. Deleting the resource leaves the copy.
type CopyToRemote struct{}

// CopyToRemoteInputs are the inputs of a remote.CopyToRemote.
type CopyToRemoteInputs struct {
	Connection *Connection          `pulumi:"connection"        provider:"secret"`
	Triggers   *[]any               `pulumi:"triggers,optional" provider:"replaceOnChanges"`
	Source     types.AssetOrArchive `pulumi:"source"`
	RemotePath string               `pulumi:"remotePath"`
}

// CopyToRemoteOutputs are the inputs.
type CopyToRemoteOutputs struct {
	CopyToRemoteInputs
}

// Annotate describes the resource in the provider's schema.
func (c *CopyToRemote) Annotate(a infer.Annotator) {
	a.Describe(&c, "A file or folder on a host, over SFTP.")
}

// Annotate describes the fields in the provider's schema.
func (c *CopyToRemoteInputs) Annotate(a infer.Annotator) {
	a.Describe(&c.Connection, "The host, and how to log in to it.")
	a.Describe(&c.Triggers, "Values of any type; a change of one replaces the resource.")
	a.Describe(&c.Source, "A FileAsset, a StringAsset, or a FileArchive of a folder or file, copied as it is.")
	a.Describe(&c.RemotePath, "Where the copy goes; missing parent folders are made.")
}

// Check refuses sources that cannot be copied. A source that is not known yet passes.
func (*CopyToRemote) Check(
	ctx context.Context, req infer.CheckRequest,
) (infer.CheckResponse[CopyToRemoteInputs], error) {
	inputs, failures, err := infer.DefaultCheck[CopyToRemoteInputs](ctx, req.NewInputs)
	if err == nil && !req.NewInputs.Get("source").IsComputed() {
		failures = append(failures, sourceFailures(inputs.Source)...)
	}
	return infer.CheckResponse[CopyToRemoteInputs]{Inputs: inputs, Failures: failures}, err
}

func sourceFailures(source types.AssetOrArchive) []p.CheckFailure {
	refuse := func(property, reason string) []p.CheckFailure {
		return []p.CheckFailure{{Property: property, Reason: reason}}
	}
	switch asset, archive := source.Asset, source.Archive; {
	case asset != nil && archive != nil:
		return refuse("asset", "only one of asset or archive can be set")
	case asset == nil && archive == nil:
		return refuse("asset", "either asset or archive must be set")
	case asset != nil && !asset.IsPath() && !asset.IsText():
		return refuse("asset", "asset must be a path-based file asset or a text asset")
	case archive != nil && !archive.IsPath():
		return refuse("archive", "archive must be a path to a file or directory")
	}
	return nil
}

// Create copies the source.
func (*CopyToRemote) Create(
	ctx context.Context, req infer.CreateRequest[CopyToRemoteInputs],
) (infer.CreateResponse[CopyToRemoteOutputs], error) {
	response := infer.CreateResponse[CopyToRemoteOutputs]{Output: CopyToRemoteOutputs{req.Inputs}}
	if req.DryRun {
		return response, nil
	}
	err := req.Inputs.copy(ctx)
	if err == nil {
		response.ID, err = resource.NewUniqueHex("", 8, 0)
	}
	return response, err
}

// Update copies again only when the content or the remote path has changed.
func (*CopyToRemote) Update(
	ctx context.Context, req infer.UpdateRequest[CopyToRemoteInputs, CopyToRemoteOutputs],
) (infer.UpdateResponse[CopyToRemoteOutputs], error) {
	var err error
	if !req.DryRun && (req.Inputs.hash() != req.State.hash() || req.Inputs.RemotePath != req.State.RemotePath) {
		err = req.Inputs.copy(ctx)
	}
	return infer.UpdateResponse[CopyToRemoteOutputs]{Output: CopyToRemoteOutputs{req.Inputs}}, err
}

func (c *CopyToRemoteInputs) copy(ctx context.Context) error {
	conn, err := c.Connection.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	files, err := sftp.NewClient(conn.Client, sftp.UseConcurrentWrites(true))
	if err != nil {
		return causeOf(ctx, err)
	}
	defer files.Close()
	target := remoteFiles{files}
	if c.Source.Asset != nil && c.Source.Asset.IsText() {
		err = target.placeText(c.Source.Asset.Text, c.RemotePath)
	} else {
		err = target.place(c.path(), c.RemotePath)
	}
	if err != nil {
		return causeOf(ctx, err)
	}
	return nil
}

func (c *CopyToRemoteInputs) path() string {
	if c.Source.Asset != nil {
		return c.Source.Asset.Path
	}
	return c.Source.Archive.Path
}

func (c *CopyToRemoteInputs) hash() string {
	switch {
	case c.Source.Asset != nil:
		return c.Source.Asset.Hash
	case c.Source.Archive != nil:
		return c.Source.Archive.Hash
	}
	return ""
}
