/** The page's settings, as JupyterLab keeps them. */
import type { ISettingRegistry } from "@jupyterlab/settingregistry";
import { Signal } from "@lumino/signaling";
import { type Defaults, defaultsOf } from "./environment";

/** The plugin whose schema has them. */
export const PLUGIN = "agent-kernel:prompts";

export class Settings {
  private values: Readonly<Record<string, unknown>> = {};
  /** A person has changed one. */
  readonly changed = new Signal<this, void>(this);

  /** Without a registry, or before it has answered, nothing is set. */
  constructor(registry: ISettingRegistry | null) {
    const read = async (): Promise<void> => {
      const settings = await registry?.load(PLUGIN);
      const take = (): void => {
        this.values = settings?.composite ?? {};
      };
      settings?.changed.connect(() => {
        take();
        this.changed.emit();
      });
      take();
    };
    void read().catch(() => undefined);
  }

  /** Of prompts that are run in this page. */
  get defaults(): Defaults {
    return defaultsOf(this.values);
  }

  /** Whether what waits in a notebook that is not in view is told by a notification of JupyterLab. */
  get notifies(): boolean {
    return this.values["notifications"] === true;
  }

  /** Whether it is told by one of the desktop. */
  get notifiesOnDesktop(): boolean {
    return this.values["desktopNotifications"] === true;
  }
}
