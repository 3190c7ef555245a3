"""A workflow of CWL in which values pass, and what passes in it, for the adapters of those that run it.

number_1 --n--> (double) --n--> number_2        an expression between
    |           many [2, 3] --n--> total        a scatter of numbers
    +--n--> inner: add --n--> use               into a subworkflow, and out of it
make --folder--> list                           a directory
"""

COUNT = "{class: CommandLineTool, baseCommand: [sh, -c, 'echo $(($0 + 1))'], stdout: n.txt,"
NUMBER = "{type: int, outputBinding: {glob: n.txt, loadContents: true, outputEval: '$(parseInt(self[0].contents))'}}"
TOOL = f"{COUNT} inputs: {{n: {{type: int, inputBinding: {{}}}}}}, outputs: {{n: {NUMBER}}}}}"
FLOW = f"""
cwlVersion: v1.2
class: Workflow
requirements:
  InlineJavascriptRequirement: {{}}
  ScatterFeatureRequirement: {{}}
  StepInputExpressionRequirement: {{}}
  SubworkflowFeatureRequirement: {{}}
inputs: {{start: {{type: int, default: 10}}, several: {{type: "int[]", default: [2, 3]}}}}
outputs: {{}}
steps:
  number_1: {{in: {{n: start}}, out: [n], run: {TOOL}}}
  double:
    in: {{n: number_1/n}}
    out: [n]
    run:
      {{class: ExpressionTool, inputs: {{n: int}}, outputs: {{n: int}}, expression: "${{return {{n: 2 * inputs.n}};}}"}}
  number_2: {{in: {{n: double/n}}, out: [n], run: {TOOL}}}
  many: {{scatter: n, in: {{n: several}}, out: [n], run: {TOOL}}}
  total: {{in: {{all: many/n, n: {{valueFrom: "$(inputs.all[0] + inputs.all[1])"}}}}, out: [n], run: {TOOL}}}
  inner:
    in: {{n: number_1/n}}
    out: [n]
    run:
      class: Workflow
      inputs: {{n: int}}
      outputs: {{n: {{type: int, outputSource: add/n}}}}
      steps: {{add: {{in: {{n: n}}, out: [n], run: {TOOL}}}}}
  use: {{in: {{n: inner/n}}, out: [n], run: {TOOL}}}
  make:
    in: []
    out: [folder]
    run: {{class: CommandLineTool, baseCommand: [sh, -c, "mkdir d; seq 1000 > d/a; seq 2000 > d/b"], inputs: [],
          outputs: {{folder: {{type: Directory, outputBinding: {{glob: d}}}}}}}}
  list:
    in: {{folder: make/folder}}
    out: [out]
    run: {{class: CommandLineTool, baseCommand: [sh, -c, 'cat "$0"/* | wc -l'], stdout: lines.txt,
          inputs: {{folder: {{type: Directory, inputBinding: {{}}}}}}, outputs: {{out: stdout}}}}
"""
PASSED = {
    ("number_1", "number_2", "value only"),
    ("many", "total", "value only"),
    ("number_1", "add", "value only"),
    ("add", "use", "value only"),
    ("make", "list", "observed"),
}
"""Stages between which something passes, and what a report says of it."""
