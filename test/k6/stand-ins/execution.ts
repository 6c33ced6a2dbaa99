import { type ScenarioState, stage } from './stage.js';

function scenarioNow(): ScenarioState {
  if (stage.scenario === undefined) throw new Error('there is a scenario within iterations alone');
  return stage.scenario;
}

const scenario = {
  get name() {
    return scenarioNow().name;
  },
  get executor() {
    return scenarioNow().executor;
  },
  get progress() {
    return scenarioNow().progress;
  },
};

export default { scenario };
