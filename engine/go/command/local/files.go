package local

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/gobwas/glob"
	"github.com/pulumi/pulumi-go-provider/infer/types"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// collect reads the files that the patterns name, in the folder where the command ran.
func (c *CommandOutputs) collect(dir string) error {
	if dir == "" {
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		dir = here
	}
	if c.AssetPaths != nil {
		found, err := match(dir, *c.AssetPaths)
		if err != nil {
			return fmt.Errorf("assetPaths: %w", err)
		}
		assets := map[string]*types.AssetOrArchive{}
		for name, asset := range found {
			assets[name] = &types.AssetOrArchive{Asset: asset}
		}
		c.Assets = &assets
	}
	if c.ArchivePaths != nil {
		found, err := match(dir, *c.ArchivePaths)
		if err != nil {
			return fmt.Errorf("archivePaths: %w", err)
		}
		content := map[string]any{}
		for name, asset := range found {
			content[name] = asset
		}
		if c.Archive, err = resource.NewAssetArchive(content); err != nil {
			return fmt.Errorf("archivePaths: %w", err)
		}
	}
	return nil
}

// pattern is one rule; rules are applied in order, so that a later one takes back what an earlier one took.
type pattern struct {
	glob.Glob
	excludes bool
}

// match gives the files below dir that the rules leave, by their path from there.
func match(dir string, rules []string) (map[string]*resource.Asset, error) {
	patterns := make([]pattern, len(rules))
	for i, rule := range rules {
		text, excludes := strings.CutPrefix(rule, "!")
		compiled, err := glob.Compile(text, '/')
		if err != nil {
			return nil, fmt.Errorf("%q: %w", rule, err)
		}
		patterns[i] = pattern{compiled, excludes}
	}
	assets := map[string]*resource.Asset{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isTaken(name, patterns) {
			return err
		}
		assets[name], err = resource.NewPathAsset(path.Join(dir, name))
		return err
	})
	return assets, err
}

func isTaken(name string, patterns []pattern) bool {
	taken := false
	for _, pattern := range patterns {
		if pattern.Match(name) {
			taken = !pattern.excludes
		}
	}
	return taken
}
