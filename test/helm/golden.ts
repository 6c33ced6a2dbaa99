import { writeFileSync } from 'node:fs';
import { findHelm, goldenFile, render, valueSets } from './chart.js';

/* Renders the chart anew for the comparison of golden.test.ts: `npm run build && node dist/test/helm/golden.js --write`. */
const helm = findHelm();
if (process.argv[2] !== '--write') throw new Error('usage: node dist/test/helm/golden.js --write');
if (helm === undefined) throw new Error('helm is not installed');
for (const name of valueSets()) writeFileSync(goldenFile(name), render(helm, name));
