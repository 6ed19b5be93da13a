// Package docs holds the pages of evidence: how the models are built, what they were compared with, and what was found. README.md lists
// them. Its tests compare tables and numbers with the output of commands.
package docs
