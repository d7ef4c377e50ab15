// Lays a graph out by one of the usual libraries and prints the milliseconds of the layout alone.
// node layout_libraries.mjs <dagre|elkjs|d3-dag> <graph.json: {nodes: number, edges: [[source, sink], …]}>
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [library, path] = process.argv.slice(2);
// Found from where they were installed: the working directory.
const require = createRequire(process.cwd() + "/");
const { nodes, edges } = JSON.parse(readFileSync(path));
const layouts = {
  dagre() {
    const dagre = require("@dagrejs/dagre");
    const graph = new dagre.graphlib.Graph().setGraph({ rankdir: "LR" }).setDefaultEdgeLabel(() => ({}));
    for (let node = 0; node < nodes; node += 1) graph.setNode(String(node), { width: 10, height: 10 });
    for (const [source, sink] of edges) graph.setEdge(String(source), String(sink));
    return () => dagre.layout(graph);
  },
  elkjs() {
    const Elk = require("elkjs");
    const elk = new Elk();
    const children = Array.from({ length: nodes }, (_, node) => ({ id: String(node), width: 10, height: 10 }));
    const arcs = edges.map(([source, sink], index) => ({ id: `e${index}`, sources: [String(source)], targets: [String(sink)] }));
    return () => elk.layout({ id: "root", layoutOptions: { "elk.algorithm": "layered" }, children, edges: arcs });
  },
  "d3-dag"() {
    const d3 = require("d3-dag");
    const parents = new Map(Array.from({ length: nodes }, (_, node) => [node, []]));
    for (const [source, sink] of edges) parents.get(sink).push(String(source));
    const graph = d3.graphStratify()([...parents].map(([node, above]) => ({ id: String(node), parentIds: above })));
    // The defaults lay out some dozens of nodes: these are its fast ways.
    const layout = d3.sugiyama().layering(d3.layeringLongestPath()).decross(d3.decrossTwoLayer().order(d3.twolayerGreedy())).coord(d3.coordGreedy());
    return () => layout(graph);
  },
};
const run = layouts[library]();
const began = performance.now();
await run();
console.log(Math.round(performance.now() - began));
process.exit(0);
